"""A plan → compiled steps of all chains on a device, any number per call."""
