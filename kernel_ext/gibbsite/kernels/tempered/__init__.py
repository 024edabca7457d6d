"""A density and an explorer → replicas from a reference to the density, which exchange places."""
