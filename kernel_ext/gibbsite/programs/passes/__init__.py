"""The density's jaxpr → one flat list of equations: calls inlined, loops over time and sites as arrays."""
