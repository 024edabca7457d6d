"""A run whose chains are stepped elsewhere: anything with `submit(fn, …)` that returns futures → chunks of
draws."""
