"""The IPython magics of Gibbsite: parse, delegate, display."""
