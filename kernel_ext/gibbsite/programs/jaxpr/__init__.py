"""A jaxpr, walked by tables of rules; the one place that touches what JAX may change."""
