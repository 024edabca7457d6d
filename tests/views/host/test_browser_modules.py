"""The unit tests of the browser's modules, and their answers beside Python's, by the Node of Playwright."""

import itertools
import json
import re
import subprocess
from pathlib import Path

import networkx as nx
import numpy as np
import playwright
import pytest
from gibbsite.views.host.assets import joined

JS = Path(__file__).parents[3] / "js"
NODE = Path(playwright.__file__).parent / "driver" / "node"


def in_node(code, given):
    """What a module's code writes about JSON that it reads."""
    head = "import { readFileSync } from 'node:fs';\nconst given = JSON.parse(readFileSync(0, 'utf8'));\n"
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", head + code],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=JS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_modules_pass_their_tests_in_node():
    tests = sorted(map(str, (JS / "tests").rglob("*.test.mjs")))
    done = subprocess.run(
        [NODE, "--test", "--test-reporter=tap", *tests], capture_output=True, text=True, timeout=120
    )
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert passed is not None and int(passed[1]) >= 28


@pytest.mark.parametrize("name", ["graph/graph.mjs", "dashboard/dashboard.mjs", "host/figure.mjs"])
def test_joined_modules_are_one_text_that_imports_nothing(name):
    """Node takes it, so no name is given twice."""
    text = joined(name)
    assert "\nimport " not in text and text.count("export default") == 1 and "@param" not in text
    done = subprocess.run(
        [NODE, "--check", "--input-type=module"], input=text, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_every_module_is_checked_by_typescript():
    assert json.loads((JS / "tsconfig.json").read_text())["include"] == ["*/*.mjs"]
    assert json.loads((JS / "tsconfig.json").read_text())["compilerOptions"]["checkJs"] is True


def test_the_page_s_own_answers_on_random_graphs():
    """Blankets against the moralised graph, independences against networkx, on 1000 random graphs."""
    rng = np.random.default_rng(5)
    questions, blankets, truths = [], [], []
    for _ in range(1000):
        n = int(rng.integers(3, 11))
        kinds = rng.choice(["latent", "observed", "deterministic"], n, p=[0.5, 0.2, 0.3]).tolist()
        edges = [(i, j) for i, j in itertools.combinations(range(n), 2) if rng.random() < 2 / n]
        a, b = (int(v) for v in rng.choice(n, 2, replace=False))
        given = [i for i in range(n) if i not in (a, b) and rng.random() < 0.3]
        questions.append([kinds, edges, a, b, given])
        graph = nx.DiGraph(edges)
        graph.add_nodes_from(range(n))
        fixed = ({i for i in range(n) if kinds[i] == "observed"} | set(given)) - {a, b}
        truths.append(nx.is_d_separator(graph, {a}, {b}, fixed))
        for i in [i for i in range(n) if kinds[i] == "deterministic"]:
            graph.add_edges_from(itertools.product(list(graph.predecessors(i)), list(graph.successors(i))))
            graph.remove_node(i)
        moral = nx.moral_graph(graph)
        blankets.append({str(i): sorted(map(str, moral[i])) for i in graph})
    answers = in_node(
        """import { activeTrail, blanketOf, joined } from './graph/model.mjs'
        console.log(JSON.stringify(given.map(([kinds, edges, a, b, known]) => {
            const names = kinds.map((_, i) => String(i))
            const graph = joined(names, kinds, edges.map(e => e[0]), edges.map(e => e[1]))
            const random = names.filter(n => graph[n].kind !== 'deterministic')
            return [
                activeTrail(graph, String(a), String(b), known.map(String)).length === 0,
                Object.fromEntries(random.map(n => [n, blanketOf(graph, n).sort()])),
            ]
        })))""",
        questions,
    )
    assert [free for free, _ in answers] == truths and 150 < sum(truths) < 850
    assert [near for _, near in answers] == blankets
    assert sum(len(near) for row in blankets for near in row.values()) > 5000
