"""A plot as data → a Bokeh figure that lives, and a still picture."""
