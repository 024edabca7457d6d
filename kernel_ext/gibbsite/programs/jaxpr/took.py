"""How long programs took to compile on this machine, so that one can say how long the next will take."""

import json
import logging
import math
from pathlib import Path
from statistics import median

from gibbsite.programs.jaxpr.kept import put

_FILE = "took.json"
_MOST, _LAST, _MOST_BYTES = 64, 5, 100_000
# programs of a size within this factor are alike; what they take goes with their size
_ALIKE = 2.0
_logger = logging.getLogger("gibbsite")


class Took:
    """Seconds by sort and size of program, in a file beside the compiled ones: the last of them, as numbers.

    Whatever is wrong with the file, nothing is known: it is replaced by what is learnt next.
    """

    def __init__(self, folder: Path):
        self._path = folder / _FILE

    def expected(self, sort: str, size: int) -> float | None:
        """Seconds that a program of so many bytes will take, by the last ones like it; None where there was
        none."""
        alike = [s * size / n for k, n, s in self._read() if k == sort and 1 / _ALIKE <= n / size <= _ALIKE]
        return median(alike[-_LAST:]) if alike else None

    def add(self, sort: str, size: int, seconds: float) -> None:
        """Remember what a program took."""
        rows = [*self._read(), (sort, size, round(seconds, 3))][-_MOST:]
        try:
            put(self._path, json.dumps(rows).encode())
        except OSError as error:  # the cache of compiled programs, in the same folder, tells of it
            _logger.debug("cannot remember how long compiling took: %s", error)

    def _read(self) -> list[tuple[str, int, float]]:
        try:
            with self._path.open("rb") as file:
                rows = json.loads(file.read(_MOST_BYTES))
            found = [(str(sort), int(size), float(seconds)) for sort, size, seconds in rows]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            _logger.debug("what was remembered of compiling is of no use: %s", error)
            return []
        return [(k, n, s) for k, n, s in found if n > 0 and math.isfinite(s) and s >= 0]
