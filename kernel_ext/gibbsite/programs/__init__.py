"""Programs as JAX traces them → what arrays read, and the same programs rewritten."""
