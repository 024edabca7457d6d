"""What Gibbsite prints, read back: as numbers, and as the Python it was made from."""
