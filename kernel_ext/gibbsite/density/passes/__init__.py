"""Models' programs → programs that compute the same: the pipeline of all rewritings, and its printing."""
