"""`Plan` → `Run`: chains in chunks on a device, warm-up, diagnostics, checkpoints."""

from gibbsite.diagnostics.measures.snapshot import (
    BlockStat,
    Efficiency,
    History,
    Notice,
    ScalarStat,
    Snapshot,
    TraceView,
)
from gibbsite.sampling.joined import joined
from gibbsite.sampling.load import Verified, load, runs, verify
from gibbsite.sampling.run import Run, Settings
from gibbsite.sampling.start import made_ahead, sample, start, wait_interruptibly

__all__ = [
    "BlockStat",
    "Efficiency",
    "History",
    "Notice",
    "Run",
    "ScalarStat",
    "Settings",
    "Snapshot",
    "TraceView",
    "Verified",
    "joined",
    "load",
    "made_ahead",
    "runs",
    "sample",
    "start",
    "verify",
    "wait_interruptibly",
]
