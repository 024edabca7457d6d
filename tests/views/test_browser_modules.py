"""The unit tests of the browser's modules, run by the Node that Playwright brings along."""

import re
import subprocess
from pathlib import Path

import playwright
from gibbsite.views.assets import joined

JS = Path(__file__).parents[2] / "js"
NODE = Path(playwright.__file__).parent / "driver" / "node"


def test_the_modules_pass_their_tests_in_node():
    tests = sorted(map(str, (JS / "tests").glob("*.test.mjs")))
    done = subprocess.run(
        [NODE, "--test", "--test-reporter=tap", *tests], capture_output=True, text=True, timeout=120
    )
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert passed is not None and int(passed[1]) >= 14


def test_joined_modules_are_one_text_that_imports_nothing():
    text = joined("graph.mjs")
    assert "\nimport " not in text and text.count("export default") == 1
    names = re.findall(r"^(?:export )?(?:async )?(?:function|const) (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names)) > 30
    done = subprocess.run(
        [NODE, "--check", "--input-type=module"], input=text, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
