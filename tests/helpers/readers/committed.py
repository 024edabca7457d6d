"""What a store counts, without loading it: its checkpoint, and the journal after that."""

from pathlib import Path

from gibbsite.storage import checkpoint, journal


def committed(folder: Path) -> int:
    """Draws per chain that are on disk; 0 where nothing is yet."""
    if not (folder / checkpoint.FILE).exists():
        return 0
    facts = checkpoint.read(folder)[0]
    later = journal.read(folder, facts["commit"])
    return facts["draws"]["posterior"]["steps"] + sum(r.counts["posterior"] for r in later)
