"""`Plan` → `Run`: chains in chunks on a device, warm-up, diagnostics."""

from gibbsite.sampling.run import Run
from gibbsite.sampling.snapshot import BlockStat, History, Notice, ScalarStat, Snapshot, TraceView
from gibbsite.sampling.start import sample, start, wait_interruptibly

__all__ = [
    "BlockStat",
    "History",
    "Notice",
    "Run",
    "ScalarStat",
    "Snapshot",
    "TraceView",
    "sample",
    "start",
    "wait_interruptibly",
]
