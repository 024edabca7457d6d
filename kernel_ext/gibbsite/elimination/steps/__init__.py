"""Lifted factors → operations that sum sites out: a plate at once, along a chain, or one by one."""
