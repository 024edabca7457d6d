"""Parts of a flat jaxpr → their values, on demand and without repeating what is constant."""
