"""What several tests share: models, independent truths, pages that tests drive."""

from pathlib import Path

TESTS = Path(__file__).parents[1]  # what a process that a test starts puts on its path
SCREENSHOTS = TESTS / "browser" / "screenshots"
