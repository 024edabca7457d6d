"""Predictions of models of every kind beside independent calculations, in standard errors.

    python benchmarks/predicted.py [options of pytest]

Runs `tests/prediction/test_models.py`, where every calculation stands, and prints for each of its tests how
many means and variances were compared and how far apart the worst was. Beyond four standard errors a test
fails.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

TESTS = Path(__file__).parent.parent / "tests"


def main() -> int:
    """Run the tests, and print the table."""
    sys.path.insert(0, str(TESTS))
    from helpers.predicted import COMPARED

    rest = ["-q", "-p", "no:cacheprovider", *(sys.argv[1:] or ["-m", "slow or not slow"])]
    failed = pytest.main([str(TESTS / "prediction" / "test_models.py"), *rest])
    print("| test | compared | worst mean, standard errors | worst variance |")
    print("|---|---|---|---|")
    for name in dict.fromkeys(n for n, _, _ in COMPARED):
        means, variances = zip(*[(m, v) for n, m, v in COMPARED if n == name], strict=True)
        worst = "–" if np.isnan(variances).all() else f"{np.nanmax(variances):.1f}"
        print(f"| {name} | {len(means)} | {max(means):.1f} | {worst} |")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
