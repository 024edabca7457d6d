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
from gibbsite.graph import DependencyGraph, Node, PlateBox
from gibbsite.graph.drawing import draw
from gibbsite.graph.listing import brief


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


def test_closed_plates_never_claim_an_independence_too_many():
    """On random graphs with random plates: what a graph with closed plates calls independent is so in the
    whole one, its blankets shield their nodes there, and it has no circle."""
    rng = np.random.default_rng(11)
    boxes = [PlateBox("p", 3), PlateBox("q", 2)]
    answers = {True: 0, False: 0}
    for _ in range(400):
        n = int(rng.integers(4, 11))
        kinds = rng.choice(["latent", "observed", "deterministic"], n, p=[0.5, 0.3, 0.2]).tolist()
        plates = [("p",) * int(r < 0.35) + ("q",) * int(0.2 < r < 0.5) for r in rng.random(n)]
        edges = [(i, j) for i, j in itertools.combinations(range(n), 2) if rng.random() < 2 / n]
        children = {j for _, j in edges}  # what reads nothing is no deterministic value
        kinds = [k if i in children else k.replace("deterministic", "latent") for i, k in enumerate(kinds)]
        nodes = [Node(f"v{i}", kinds[i], plates=plates[i]) for i in range(n)]
        whole = DependencyGraph(nodes, [(f"v{i}", f"v{j}") for i, j in edges], boxes)
        small, members = whole.closed()
        assert nx.is_directed_acyclic_graph(small.to_networkx())
        assert sorted(m for k in small.nodes for m in members.get(k, (k,))) == sorted(whole.nodes)
        for a, b in itertools.combinations(small.nodes, 2):
            given = [g for g in small.nodes if g not in (a, b) and rng.random() < 0.3]
            if small.independent(a, b, given):
                known = [m for g in given for m in members.get(g, (g,))]
                for x, y in itertools.product(members.get(a, (a,)), members.get(b, (b,))):
                    kept = [k for k in known if k not in (x, y)]
                    assert whole.independent(x, y, kept), (whole.edges, x, y, kept)
            answers[bool(small.independent(a, b, given))] += 1
        for name in small.nodes:
            # `independent` takes a deterministic value of given ones for unknown; blankets see through it
            if name in whole.nodes and whole.nodes[name].random and "deterministic" not in kinds:
                blanket = small.markov_blanket(name)
                near = [m for k in blanket for m in members.get(k, (k,))]
                for other in small.nodes:
                    if other not in (name, *blanket) and small.nodes[other].random:
                        assert all(whole.independent(name, m, near) for m in members.get(other, (other,)))
    assert min(answers.values()) > 300


def test_a_plate_of_one_node_stays_and_unknown_ones_are_named(graph):
    small, members = graph.closed(["n"])
    assert members == {"plate n": ("b", "y")} and small.nodes["plate n"].kind == "plate"
    assert set(small.parents("plate n")) == {"mu", "sd", "x"} and small.levels()["plate n"] == "model"
    assert small.closed()[1] == {} and small.plates == {}
    assert "open" not in str(small.independent("mu", "tau")) and not small.independent("mu", "tau")
    with pytest.raises(UnknownNameError):
        graph.closed(["m"])


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


def test_mixtures_truncated_distributions_and_constants_are_written_out():
    def model(x):
        mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
        low = numpyro.sample("low", dist.TruncatedCauchy(0, 2, low=0.5))
        z = numpyro.sample("z", dist.Bernoulli(0.5))
        p = numpyro.deterministic("p", jnp.array([0.2, 0.7, 0.9])[z])
        parts = [dist.Normal(mu[0], 1), dist.Laplace(mu[1], low)]
        with numpyro.plate("n", len(x)):
            inner = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(mu, low))
            numpyro.sample("x", inner, obs=x)
            numpyro.sample("y", dist.MixtureGeneral(dist.Categorical(logits=jnp.zeros(2)), parts), obs=x)
            numpyro.sample("k", dist.ZeroInflatedPoisson(p, low), obs=x)

    nodes = gb.model(model, np.ones(3)).graph.nodes
    assert nodes["low"].distribution == "Truncated(Cauchy(0, 2), low=0.5)"
    assert nodes["x"].distribution == "MixtureSameFamily(Categorical([0.3, 0.7]), Normal(mu, low))"
    parts = "Normal(mu[0], 1), Laplace(mu[1], low)"
    assert nodes["y"].distribution == f"MixtureGeneral(Categorical(logits=0), {parts})"
    assert (
        nodes["k"].distribution == "ZeroInflatedPoisson(p, low)"
        and nodes["p"].distribution == "[0.2, 0.7, 0.9][z]"
    )


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
    assert "Categorical(P[z[t-1] if t > 0 else 0])" in str(graph)
    assert graph.parents("z") == ("P",)


def test_exports(graph):
    exported = graph.to_networkx()
    assert exported.nodes["b"]["plates"] == ("n",) and exported.nodes["b"]["level"] == "model"
    lines = str(graph).splitlines()
    assert len(lines) == len(graph.nodes) and "⩪" in str(graph)
    line = "tau → sd; mu, sd → b; x, b → y; mu, sd → new"
    kinds = "1 data, 4 latent, 1 deterministic, 1 observed"
    assert brief(graph) == f"Dependency graph: 7 nodes ({kinds}) and 7 edges: {line}"


def test_one_line_says_what_there_is():
    assert brief(DependencyGraph([], [])) == "Dependency graph without nodes"
    lonely = [Node("a", "latent"), Node("b\nc", "latent")]
    assert brief(DependencyGraph(lonely, [])) == "Dependency graph: 2 nodes (2 latent) and 0 edges: a; b c"
    chain = [Node(f"node_{i}", "latent") for i in range(99)]
    line = brief(DependencyGraph(chain, [(a.name, b.name) for a, b in itertools.pairwise(chain)]))
    assert line.endswith(" …") and "node_0 → node_1; " in line and 120 < len(line) <= 162


def test_unknown_nodes_are_named(graph):
    with pytest.raises(UnknownNameError, match="did you mean 'tau'"):
        graph.markov_blanket("tua")
    with pytest.raises(KeyError):
        graph.independent("mu", "nothing")


# ------------------------------------------------------------ examples of Gorinova 2022 (thesis, part I)


def test_the_sprinkler():
    def sprinkler():
        cloudy = numpyro.sample("cloudy", dist.Bernoulli(0.5))
        sprinkler = numpyro.sample("sprinkler", dist.Bernoulli(jnp.where(cloudy == 1, 0.1, 0.5)))
        rain = numpyro.sample("rain", dist.Bernoulli(jnp.where(cloudy == 1, 0.8, 0.2)))
        p = numpyro.deterministic("p", 0.01 + 0.9 * sprinkler + 0.08 * rain)
        numpyro.sample("wet", dist.Bernoulli(p), obs=jnp.ones(()))

    g = gb.model(sprinkler).graph
    assert set(g.markov_blanket("rain")) == {"cloudy", "sprinkler", "wet"}
    assert set(g.markov_blanket("cloudy")) == {"sprinkler", "rain"}
    assert not g.independent("sprinkler", "rain", ["cloudy"])  # `wet` is seen: explaining away
    assert g.independent("sprinkler", "rain", ["cloudy"], given_data=False)
    assert not g.independent("sprinkler", "rain", given_data=False)


def test_program_a_a_chain_through_deterministic_values():
    def program():
        z1 = numpyro.sample("z1", dist.Bernoulli(0.3))
        theta1 = numpyro.deterministic("theta1", 0.2 + 0.5 * z1)
        z2 = numpyro.sample("z2", dist.Bernoulli(theta1))
        phi1 = numpyro.deterministic("phi1", 0.1 + 0.4 * z1)
        phi2 = numpyro.deterministic("phi2", 0.1 + 0.4 * z2)
        numpyro.sample("y1", dist.Normal(phi1, 1), obs=jnp.zeros(()))
        numpyro.sample("y2", dist.Normal(phi2, 1), obs=jnp.zeros(()))
        theta2 = numpyro.deterministic("theta2", 0.2 + 0.5 * z2)
        numpyro.sample("z3", dist.Bernoulli(theta2))

    g = gb.model(program).graph
    assert set(g.markov_blanket("z1")) == {"z2", "y1"}
    assert set(g.markov_blanket("z2")) == {"z1", "z3", "y2"}
    assert g.independent("z1", "z3", ["z2"]) and not g.independent("z1", "z3")
    assert g.levels()["z3"] == "generated" and g.levels()["phi1"] == "model"


def test_the_cross_model():
    """Two causes, a common middle, two effects: the middle separates after from before."""

    def cross():
        a = numpyro.sample("a", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(0, 1))
        m = numpyro.sample("m", dist.Normal(a + b, 1))
        numpyro.sample("c", dist.Normal(m, 1))
        numpyro.sample("d", dist.Normal(2 * m, 1))

    g = gb.model(cross).graph
    assert g.independent("a", "b") and not g.independent("a", "b", ["m"])
    assert g.independent("c", "d", ["m"]) and g.independent("a", "c", ["m"]) and not g.independent("c", "d")
    assert set(g.markov_blanket("m")) == {"a", "b", "c", "d"} and set(g.markov_blanket("a")) == {"b", "m"}


# ------------------------------------------------------------ folding and elements


def test_folding_keeps_blankets_and_paths():
    rng = np.random.default_rng(3)
    smaller = 0
    for _ in range(300):
        graph = random_graph(rng, int(rng.integers(3, 13)))
        small, members = graph.folded()
        smaller += bool(members)
        for name, node in graph.nodes.items():
            if node.random:
                assert set(small.markov_blanket(name)) == set(graph.markov_blanket(name))
        a, b = rng.choice([n for n in small.nodes], 2, replace=len(small.nodes) < 2)
        if a != b and graph.nodes[a].random and graph.nodes[b].random:
            assert bool(small.independent(a, b)) == bool(graph.independent(a, b))
    assert smaller > 20


def test_indexed_sites_fold_into_one_node_unless_that_closes_a_circle():
    names = [f"s[{i}]" for i in range(4)]
    nodes = [Node(n, "latent") for n in names] + [Node(f"x[{i}]", "observed") for i in range(4)]
    edges = [(names[i], names[i + 1]) for i in range(3)] + [(names[i], f"x[{i}]") for i in range(4)]
    groups = {"s": tuple(names), "x": tuple(f"x[{i}]" for i in range(4))}
    small, members = DependencyGraph(nodes, edges, groups=groups).folded()
    assert set(small.nodes) == {"s", "x"} and small.nodes["s"].recurrent and members["s"] == tuple(names)
    back = [*edges, ("x[0]", "s[1]")]
    small, members = DependencyGraph(nodes, back, groups=groups).folded()
    assert members == {} and "x[3]" in small.nodes


def test_a_prior_that_reads_the_data_closes_no_circle():
    def ranged(y):
        mu = numpyro.sample("mu", dist.Normal(y.mean(), y.max() - y.min()))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
            numpyro.sample("x", dist.Normal(y, 1.0))

    graph = gb.model(ranged, np.array([1.0, 2.0, 4.0])).graph
    assert set(graph.edges) == {("mu", "y"), ("y", "x")}
    assert draw(graph).nodes.keys() == {"mu", "y", "x"}


def test_blankets_of_elements():
    def grouped(g, y):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([4]))
        m = numpyro.sample("m", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a[g] + m, 1), obs=y)

    model = gb.model(grouped, np.array([0, 1, 1, 3]), np.zeros(4, np.float32))
    assert model.element_blanket("a", 1) == {"m": ((),), "y": ((1,), (2,))}
    assert model.element_blanket("a", 2) == {}
    with pytest.raises(ValueError, match="does not exist"):
        model.element_blanket("a", 4)

    def scalars(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]))
        a = numpyro.sample("a", dist.Normal(mu[1], 1))
        numpyro.sample("b", dist.Normal(a, 1))
        numpyro.sample("y", dist.Normal(a, 1), obs=y)

    single = gb.model(scalars, jnp.zeros(()))
    assert single.element_blanket("a", ()) == {"mu": ((1,),), "b": ((),), "y": ((),)}
    assert single.element_blanket("mu", 1) == {"a": ((),)} and single.element_blanket("mu", 0) == {}

    def walk():
        z = numpyro.sample("z", dist.Categorical(jnp.ones((6, 2))).to_event(1))
        numpyro.factor("f", jnp.array([[1.0, 0.0], [0.0, 1.0]])[z[:-1], z[1:]].sum())

    assert gb.model(walk).element_blanket("z", (3,)) == {"z": ((2,), (4,))}


# ------------------------------------------------------------ models from models


def test_conditioning_observes_and_intervening_cuts():
    base = gb.model(hierarchy, np.arange(3.0), np.zeros(3))
    seen = base.condition(mu=1.5)
    assert seen.graph.nodes["mu"].kind == "observed" and ("mu", "b") in seen.graph.edges
    state = {"tau": 1.0, "b": np.ones(3), "new": 0.0}
    np.testing.assert_allclose(
        seen.density.log_joint(state), base.density.log_joint({**state, "mu": 1.5}), rtol=1e-5
    )
    cut = base.do(b=[1.0, 2.0, 3.0])
    assert cut.graph.parents("b") == () and ("b", "y") in cut.graph.edges
    assert cut.graph.levels()["mu"] == "generated"
    node = cut.graph.nodes["b"]
    assert (node.kind, node.distribution) == ("data", "[1, 2, 3] (set)")
    chained = base.do(tau=5.0).graph.folded()[0]  # what reads it is computed, and it is no part of that
    assert ("tau", "sd") in chained.edges and "= tau = 5 (set)" in str(chained)
    assert chained.nodes["sd"].distribution == "2 * tau"
    gone = base.density.log_joint({**state, "mu": 1.5, "b": np.array([1.0, 2.0, 3.0])})
    prior = dist.Normal(1.5, 2.0).log_prob(jnp.array([1.0, 2.0, 3.0])).sum()
    now = cut.density.log_joint({"tau": 1.0, "mu": 1.5, "new": 0.0})
    np.testing.assert_allclose(now, gone - prior, rtol=1e-5)


@pytest.mark.parametrize(
    ("action", "values", "words"),
    [
        ("condition", {"tau": -1.0}, "outside the support of 'tau'"),
        ("condition", {"b": [0.0, 1.0]}, "has shape"),
        ("condition", {"y": 0.0}, "is observed already"),
        ("condition", {}, "which site"),
        ("do", {"taw": 1.0}, "did you mean 'tau'"),
    ],
)
def test_changes_that_do_not_fit_say_why(action, values, words):
    base = gb.model(hierarchy, np.arange(3.0), np.zeros(3))
    with pytest.raises(gb.GibbsiteError, match=words):
        getattr(base, action)(values)


def test_a_schedule_of_one_s_own_becomes_the_default():
    base = gb.model(hierarchy, np.arange(3.0), np.zeros(3))
    mine = base.with_schedule("Slice mu (*) NUTS [tau b new]")
    assert mine.schedule().text == "Slice mu (*) NUTS [tau b new]" != base.schedule().text
    assert mine.with_schedule(None).schedule().text == base.schedule().text
    with pytest.raises(gb.GibbsiteError):
        base.with_schedule("Gibbs mu")


def test_transformed_distributions_show_their_base_and_transforms():
    transforms = dist.transforms

    def model(x):
        s = numpyro.sample("s", dist.LogNormal(0, 1))
        ordered = [transforms.OrderedTransform()]
        base = dist.Normal(jnp.zeros(3), s).to_event(1)
        mu = numpyro.sample("mu", dist.TransformedDistribution(base, ordered))
        steps = [transforms.AffineTransform(1.0, s), transforms.ExpTransform()]
        q = numpyro.sample("q", dist.TransformedDistribution(dist.Normal(mu[0], 2.0), steps))
        numpyro.sample("x", dist.Normal(q, 1), obs=x)

    made = gb.model(model, np.zeros(4, np.float32))
    shown = {name: node.distribution for name, node in made.graph.nodes.items()}
    assert shown["s"] == "LogNormal(0, 1)"
    assert shown["mu"] == "Ordered(Normal(0, s))"
    assert shown["q"] == "Exp(Affine(Normal(mu[0], 2), …))"
    assert "Ordered(Normal)(mu | 0, s)" in made.conditional("mu").text
