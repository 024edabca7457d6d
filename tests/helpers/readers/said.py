"""What a process that a test started said where errors go."""

import re

_XLA = re.compile(r"^[EWI]\d{4} [\d:.]+ +\d+ \w+\.cc:\d+\] .*\n?", re.MULTILINE)


def said(stderr: str | bytes) -> str:
    """Without the log of XLA: jaxlib 0.10.0 takes hints for the compiler in a program that it reads back for
    features of the machine, and logs that this one lacks them."""
    return _XLA.sub("", stderr if isinstance(stderr, str) else stderr.decode())
