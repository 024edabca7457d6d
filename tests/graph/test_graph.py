"""Blankets, levels and independence against independent truths."""

import itertools

import gibbsite as gb
import jax.numpy as jnp
import networkx as nx
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import UnknownNameError
from gibbsite.graph import DependencyGraph, Node


def random_graph(rng, n):
    """A random DAG over latent, observed, deterministic and factor nodes (factors have no children)."""
    kinds = rng.choice(["latent", "observed", "deterministic", "factor"], size=n, p=[0.4, 0.2, 0.3, 0.1])
    nodes = [Node(f"v{i}", str(k)) for i, k in enumerate(kinds)]
    edges = [
        (f"v{i}", f"v{j}")
        for i, j in itertools.combinations(range(n), 2)
        if kinds[i] != "factor" and rng.random() < 2.5 / n
    ]
    return DependencyGraph(nodes, edges)


def moral_blanket(graph, name):
    """The blanket by brute force: join parents to children of deterministic nodes, then moralise."""
    g = nx.DiGraph(graph.edges)
    g.add_nodes_from(graph.nodes)
    for n in [n for n in nx.topological_sort(g) if graph.nodes[n].kind == "deterministic"]:
        g.add_edges_from(itertools.product(list(g.predecessors(n)), list(g.successors(n))))
        g.remove_node(n)
    moral = nx.moral_graph(g)
    near = set(moral.neighbors(name))
    return {n for n in near if graph.nodes[n].random}


def test_blankets_of_random_graphs():
    rng = np.random.default_rng(0)
    compared = 0
    for _ in range(1000):
        graph = random_graph(rng, int(rng.integers(2, 13)))
        for name, node in graph.nodes.items():
            if node.random:
                assert set(graph.markov_blanket(name)) == moral_blanket(graph, name), graph.edges
                compared += len(graph.markov_blanket(name))
    assert compared > 5000


def test_independence_is_d_separation():
    rng = np.random.default_rng(1)
    answers = {True: 0, False: 0}
    for _ in range(1000):
        graph = random_graph(rng, int(rng.integers(3, 11)))
        names = list(graph.nodes)
        a, b = rng.choice(names, 2, replace=False)
        given = [n for n in names if n not in (a, b) and rng.random() < 0.3]
        fixed = {n for n, v in graph.nodes.items() if v.kind in ("factor", "observed")} | set(given)
        truth = nx.is_d_separator(graph.to_networkx(), {a}, {b}, fixed - {a, b})
        answer = graph.independent(a, b, given)
        assert bool(answer) == truth
        answers[truth] += 1
        if not answer:
            assert answer.path[0] == a and answer.path[-1] == b
            steps = set(graph.edges) | {(y, x) for x, y in graph.edges}
            assert all(pair in steps for pair in itertools.pairwise(answer.path))
    assert min(answers.values()) > 100


def test_a_factor_couples_what_it_reads():
    nodes = [Node("a", "latent"), Node("b", "latent"), Node("f", "factor")]
    graph = DependencyGraph(nodes, [("a", "f"), ("b", "f")])
    assert graph.markov_blanket("a") == ("b",)
    assert str(graph.independent("a", "b")) == "a and b depend on each other, through a – f – b"


def hierarchy(x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    sd = numpyro.deterministic("sd", 2 * tau)
    with numpyro.plate("n", len(y)):
        b = numpyro.sample("b", dist.Normal(mu, sd))
        numpyro.sample("y", dist.Normal(b * x, 1), obs=y)
    numpyro.sample("new", dist.Normal(mu, sd))


@pytest.fixture(scope="module")
def graph():
    return gb.model(hierarchy, np.arange(3.0), np.zeros(3)).graph


def test_a_model_s_graph(graph):
    assert set(graph.edges) == {
        ("tau", "sd"), ("mu", "b"), ("sd", "b"), ("b", "y"), ("x", "y"), ("mu", "new"), ("sd", "new"),
    }  # fmt: skip
    assert graph.nodes["sd"].kind == "deterministic" and graph.nodes["x"].kind == "data"
    assert graph.nodes["y"].distribution == "Normal(b[n] * x[n], 1)"
    assert graph.plates["n"].size == 3
    assert set(graph.markov_blanket("mu")) == {"tau", "b", "new"}
    assert set(graph.markov_blanket("b")) == {"mu", "tau", "y"}


def test_levels(graph):
    """What no observation can see is generated after the fact; what no latent reaches is data."""
    levels = graph.levels()
    assert levels["new"] == "generated" and levels["x"] == "data"
    assert {levels[n] for n in ("mu", "tau", "sd", "b", "y")} == {"model"}


def test_recurrence_is_a_loop():
    from numpyro.contrib.control_flow import scan

    def chain(P, x):
        def step(z, x_t):
            z = numpyro.sample("z", dist.Categorical(P[z]))
            numpyro.sample("x", dist.Normal(jnp.float32(z), 1.0), obs=x_t)
            return z, None

        scan(step, 0, x)

    graph = gb.model(chain, np.full((2, 2), 0.5), np.zeros(4)).graph
    assert graph.nodes["z"].recurrent and not graph.nodes["x"].recurrent
    assert "Categorical(P[z[t-1]])" in str(graph)
    assert graph.parents("z") == ("P",)


def test_exports(graph):
    dot = graph.to_dot()
    assert dot.count("->") == len(graph.edges) and '"cluster_n"' in dot
    exported = graph.to_networkx()
    assert exported.nodes["b"]["plates"] == ("n",) and exported.nodes["b"]["level"] == "model"
    lines = str(graph).splitlines()
    assert len(lines) == len(graph.nodes) and "⩪" in str(graph)


def test_unknown_nodes_are_named(graph):
    with pytest.raises(UnknownNameError, match="did you mean 'tau'"):
        graph.markov_blanket("tua")
    with pytest.raises(KeyError):
        graph.independent("mu", "nothing")
