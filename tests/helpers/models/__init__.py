"""Models and programs that tests run; no answers."""
