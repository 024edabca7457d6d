"""`Density` → sites whose location or scale read latents, as declared or as written by hand."""
