"""Terms and statements of a model → text, LaTeX and HTML."""
