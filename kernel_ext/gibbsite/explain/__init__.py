"""An exception of JAX, NumPyro or Python in a model → a sentence, at the user's own line."""
