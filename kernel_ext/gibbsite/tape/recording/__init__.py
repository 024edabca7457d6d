"""A running function → records: what Python and JAX did, in order."""
