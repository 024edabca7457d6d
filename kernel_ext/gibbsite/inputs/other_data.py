"""Whether a model is run for other data than its own: what was done about its own data's gaps rests then."""

from contextvars import ContextVar

ANEW: ContextVar[bool] = ContextVar("anew", default=False)
"""True while the model's function runs on rows that are not those it was made with."""
