"""A flat jaxpr → for every array, which elements of each site its elements read."""
