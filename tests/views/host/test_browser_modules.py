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
from gibbsite.graph import DependencyGraph, Node, PlateBox
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


def test_the_page_closes_plates_as_python_does():
    """Random graphs with nested and crossing plates, random sets of them closed."""
    rng = np.random.default_rng(6)
    boxes = [PlateBox("o", 2), PlateBox("p", 3, "o"), PlateBox("q", 4, "o"), PlateBox("r", 5)]
    places = [(), (), ("o",), ("o", "p"), ("o", "q"), ("o", "p", "q"), ("r",)]
    questions, answers = [], []
    for _ in range(300):
        n = int(rng.integers(3, 14))
        nodes = [
            Node(
                f"v{i}",
                str(rng.choice(["latent", "observed", "deterministic"])),
                discrete=bool(rng.random() < 0.3),
                plates=places[int(rng.integers(len(places)))],
            )
            for i in range(n)
        ]
        edges = [(f"v{i}", f"v{j}") for i, j in itertools.combinations(range(n), 2) if rng.random() < 1.5 / n]
        names = [b.name for b in boxes if rng.random() < 0.5]
        small, members = DependencyGraph(nodes, edges, boxes).closed(names)
        items = [
            {"name": v.name, "kind": v.kind, "discrete": v.discrete}
            | {"plates": v.plates, "within": v.plates}
            | {
                "w": 60,
                "h": 40,
                "x": 0,
                "title": "",
                "text": "",
                "shape": [],
                "members": [v.name],
                "shut": [],
            }
            for v in nodes
        ]
        plates = [{"name": b.name, "size": b.size, "parent": b.parent} for b in boxes]
        questions.append([{"items": items, "edges": edges, "plates": plates}, names])
        answers.append(
            {
                "nodes": [
                    [
                        name,
                        v.kind,
                        v.discrete,
                        list(v.shape),
                        list(v.plates),
                        list(members.get(name, (name,))),
                    ]
                    for name, v in small.nodes.items()
                ],
                "edges": sorted(map(list, small.edges)),
                "plates": list(small.plates) if members else [b.name for b in boxes],
            }
        )
    told = in_node(
        """import { closedGraph } from './graph/plates.mjs'
        console.log(JSON.stringify(given.map(([graph, names]) => {
            const { items, edges, plates } = closedGraph(graph, names)
            const rows = items.map(i => [i.name, i.kind, i.discrete, i.shape, i.plates, i.members])
            return { nodes: rows, edges: edges.sort(), plates: plates.map(p => p.name) }
        })))""",
        questions,
    )
    used = [{p for row in answer["nodes"] for p in row[4]} for answer in answers]
    for answer, mine, seen in zip(answers, told, used, strict=True):
        assert mine["nodes"] == answer["nodes"]
        assert sorted(mine["edges"]) == answer["edges"]
        assert set(mine["plates"]) == seen
    assert sum(row[0].startswith("plate") for answer in answers for row in answer["nodes"]) > 200
