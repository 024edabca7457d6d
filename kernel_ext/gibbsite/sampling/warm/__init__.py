"""The steps and the draws of a warm-up → when it ends, and what there is to tell of it."""
