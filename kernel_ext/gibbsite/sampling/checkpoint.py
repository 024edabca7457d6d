"""The state of a saved run, where scripts look for it: `gibbsite.storage.checkpoint`."""

from gibbsite.storage.checkpoint import FILE, FORMAT, read, write

__all__ = ["FILE", "FORMAT", "read", "write"]
