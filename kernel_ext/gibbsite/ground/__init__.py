"""What all floors stand on: the process that Gibbsite is a guest in, and what people give it, in words."""
