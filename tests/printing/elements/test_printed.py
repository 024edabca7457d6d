"""What is printed is what is computed: texts are turned back into numbers and compared with the density.

Statements are compared element by element with the log densities of their sites, deterministic values with
their values, and conditionals, as functions of their site, with the log joint density.
"""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional import conditional_of
from gibbsite.density import build_density, rerolled
from gibbsite.printing.statements.formula import LATEX, Formula, closed, split
from gibbsite.printing.statements.statement import Statement
from helpers.models.zoo import ZOO, Case
from helpers.readers.latex import python_of, shape_of
from helpers.readers.printed import Reader

CLAIMS_NOTHING = re.compile(r"\bf\(|…")
POINTS = np.array([-1.2, 0.1, 2.2, 0.4])


def _looped_hmm(x, K=3):
    rows = jnp.stack([numpyro.sample(f"T[{i}]", dist.Dirichlet(jnp.ones(K) / K)) for i in range(K)])
    s = [numpyro.sample("s[0]", dist.Categorical(jnp.ones(K) / K))]
    for i in range(1, len(x)):
        s.append(numpyro.sample(f"s[{i}]", dist.Categorical(rows[s[i - 1]])))
    m = jnp.stack([numpyro.sample(f"m[{i}]", dist.Normal(i + 1.0, 0.1)) for i in range(K)])
    for i in range(len(x)):
        numpyro.sample(f"x[{i}]", dist.Normal(m[s[i]], 0.5), obs=x[i])


def _mutated_array(x, K=3):
    rows = numpyro.sample("T", dist.Dirichlet(jnp.ones(K) / K).expand([K]).to_event(1))
    s = jnp.zeros(len(x), int)
    s = s.at[0].set(numpyro.sample("s[0]", dist.Categorical(jnp.ones(K) / K)))
    for i in range(1, len(x)):
        s = s.at[i].set(numpyro.sample(f"s[{i}]", dist.Categorical(rows[s[i - 1]])))
    for i in range(len(x)):
        numpyro.sample(f"x[{i}]", dist.Normal(1.0 * s[i], 0.5), obs=x[i])


def _stacked_means(x, K=3):
    mu = [numpyro.sample(f"mu[{k}]", dist.Normal(0.0, 2.0)) for k in range(K)]
    z = [numpyro.sample(f"z[{n}]", dist.Categorical(jnp.ones(K) / K)) for n in range(len(x))]
    for n in range(len(x)):
        numpyro.sample(f"x[{n}]", dist.Normal(jnp.stack(mu)[z[n]], 1.0), obs=x[n])


def _looped_changepoint(y):
    early, late = (numpyro.sample(n, dist.Exponential(1.0)) for n in ("early", "late"))
    tau = numpyro.sample("tau", dist.DiscreteUniform(1, len(y)))
    for n in range(len(y)):
        numpyro.sample(f"y[{n}]", dist.Poisson(jnp.where(tau > n + 1, early, late)), obs=y[n])


def _wishart_mixture(y, K=2):
    n, d = y.shape
    weights = numpyro.sample("pi", dist.Dirichlet(jnp.ones(K) / K))
    with numpyro.plate("k", K):
        mu = numpyro.sample("mu", dist.MultivariateNormal(jnp.zeros(d), 2.0 * jnp.eye(d)))
        cov = numpyro.sample("Sigma", dist.InverseWishart(d + 3.0, jnp.eye(d)))
    with numpyro.plate("n", n):
        z = numpyro.sample("z", dist.Categorical(weights))
        numpyro.sample("y", dist.MultivariateNormal(mu[z], cov[z]), obs=y)


MATRIX = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
LONG = np.linspace(0.3, 7.1, 40) ** 2


def _constants(x, g):
    z = numpyro.sample("z", dist.Categorical(jnp.asarray(MATRIX)[g]).expand([len(g)]).to_event(1))
    b = numpyro.sample("b", dist.Normal(jnp.array([0.25, -3.0]), 1 / 3).to_event(1))
    with numpyro.plate("n", len(x)):
        mean = jnp.asarray(LONG)[g + z] + b[0] * jnp.arange(len(x)) + b[1] / 7
        mean += ((z == 1) & ((g == 1) | (z > g))) * 1.5 + ((z & 1) ^ (g & 2))
        numpyro.sample("x", dist.Normal(mean, jnp.array([0.5, 1.5, 2.5])[z]), obs=x)


def _slices(x):
    level = numpyro.sample("level", dist.Normal(0, 1).expand([len(x) + 2]).to_event(1))
    numpyro.sample("step", dist.Normal(level[1:] - level[:-1], 0.5).to_event(1), obs=jnp.ones(len(x) + 1))
    numpyro.sample("even", dist.Normal(level[::2].sum() + level[3:].max(), 1.0), obs=0.3)
    back = jnp.flip(level)[2:] * 2
    numpyro.sample("x", dist.Normal(back, 0.1 + jnp.abs(level[1])).to_event(1), obs=x)


def _regression(x, y, g):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([2]).to_event(1))
    table = numpyro.sample("table", dist.Normal(0, 1).expand([2, 3]).to_event(2))
    with numpyro.plate("n", len(y)):
        eta = x @ beta + table[:, g].sum(0) + (table @ jnp.arange(3.0))[1]
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)


def _placed(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
    less = mu.at[1].subtract(numpyro.sample("gap", dist.Exponential(1.0)))
    numpyro.sample("x", dist.Normal(less[1], 1.0), obs=x)


def _modes(x, i):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
    zero = mu.at[i].get(mode="fill", fill_value=0.0)
    end = mu.at[i + 1].get(mode="clip")
    numpyro.sample("x", dist.Normal(zero + 2 * end, 1.0).to_event(1), obs=x)
    numpyro.sample("w", dist.Normal(jnp.take(mu, i - 3, mode="clip"), 1.0).to_event(1), obs=x)  # not wrapped
    ends = jax.lax.dynamic_index_in_dim(mu, i[2], keepdims=False), mu[i[0] - 1]
    numpyro.sample("e", dist.Normal(ends[0] + 2 * ends[1], 1.0), obs=0.5)


def _numbered(x):
    p = numpyro.sample("p", dist.Beta(1, 1).expand([2]))
    before = 0
    for i in range(1, 5):
        before = numpyro.sample(f"z{i}", dist.Bernoulli(p[before]))
        numpyro.sample(f"x{i}", dist.Normal(1.0 * before, 1.0).expand([2]).to_event(1), obs=x[i - 1])


def _lagged(y):
    """The site goes by the name of the argument of which it observes a part."""
    b = numpyro.sample("b", dist.Normal(0, 1))
    t = numpyro.sample("t", dist.DiscreteUniform(0, 3))
    u = numpyro.sample("u", dist.DiscreteUniform(0, 3))
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
    n = jnp.arange(3)
    numpyro.sample(
        "y", dist.Normal(b * y[:-1] + mu[(n >= t).astype(int) + (n >= u)], 1).to_event(1), obs=y[1:]
    )


ALSO = {
    "looped_hmm": Case(_looped_hmm, (POINTS,)),
    "mutated_array": Case(_mutated_array, (POINTS,)),
    "stacked_means": Case(_stacked_means, (POINTS,)),
    "looped_changepoint": Case(_looped_changepoint, (np.array([3, 1, 4, 0, 0, 1]),)),
    "wishart_mixture": Case(_wishart_mixture, (np.array([[-1.0, 0], [0.2, 1], [2, 2.0], [1, 1]]),)),
    "constants": Case(_constants, (POINTS, np.array([0, 2, 1, 0]))),
    "slices": Case(_slices, (POINTS,)),
    "regression": Case(
        _regression, (np.stack([POINTS, POINTS**2], 1), np.array([0, 1, 1, 0]), np.array([0, 2, 1, 2]))
    ),
    "placed": Case(_placed, (0.5,)),
    "modes": Case(_modes, (POINTS, np.array([0, 2, 5, 3]))),
    "lagged": Case(_lagged, (POINTS,)),
    "numbered": Case(_numbered, (np.stack([POINTS, POINTS**2], 1),)),
}
CASES = {**ZOO, **ALSO}
OPAQUE: dict[str, set[str]] = {}
"""Sites whose statement or conditional has no short form: the list may only become shorter."""


@pytest.fixture(scope="module")
def densities():
    return {n: build_density(c.fn, c.args, c.kwargs) for n, c in CASES.items()}


def _places(shape, first=0):
    return itertools.product(
        *(range(f, f + n) for f, n in zip((first, *[0] * len(shape)), shape, strict=False))
    )


@pytest.mark.share(25)
@pytest.mark.parametrize("name", CASES)
def test_statements_say_what_the_density_computes(densities, name):
    case = CASES[name]
    base = densities[name]
    reader = Reader(base, case.state(1))
    silent = set()
    for density in dict.fromkeys((base, rerolled(base))):
        for site in density.sites.values():
            statement = Statement(density, site.name)
            text = statement.right_hand_side() if site.role == "deterministic" else statement.factor()
            if CLAIMS_NOTHING.search(text):
                silent.add(site.name)
                continue
            shape = site.shape[: site.element_rank]
            first = statement.printer.first(site.name)
            places = [dict(zip(statement.letters, p, strict=True)) for p in _places(shape, first)]
            if site.role == "deterministic":
                found = np.reshape([reader.number(text, at) for at in places], shape)
            else:
                found = reader.log_factors(text, places).reshape(shape)
            if site.role == "deterministic":
                expected = np.asarray(reader.values[site.name])
            elif site.name in reader.log_prob:
                expected = reader.log_prob[site.name]
            else:
                members = reader.members[site.name]
                expected = np.stack([reader.log_prob[m] for m in members])
            found = found.sum(tuple(range(expected.ndim, found.ndim)))
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4, err_msg=text)
    assert silent <= OPAQUE.get(name, set()), silent


@pytest.mark.share(45)
@pytest.mark.parametrize("name", CASES)
def test_conditionals_say_what_the_density_computes(densities, name):
    case = CASES[name]
    density = densities[name]
    before, other = case.state(1), case.state(2)
    silent, seen = set(), set()
    for site in density.latents:
        text = conditional_of(density, site).text
        if CLAIMS_NOTHING.search(text):
            silent.add(site)
            continue
        left = re.match(r"p\((.*?)(?: \| .*)?\) ∝", text).group(1)  # type: ignore[union-attr]
        letters = left[len(site) + 1 : -1].split(", ") if left != site else []
        shape = density.sites[site].shape[: len(letters)]
        for place in list(_places(shape))[:4]:
            value = np.array(before[site])
            value[place] = np.asarray(other[site])[place]
            changed = {**before, site: value}
            at = dict(zip(letters, place, strict=True))
            joint = [float(density.log_joint(s)) for s in (before, changed)]
            told = [Reader(density, s).log_conditional(text, at) for s in (before, changed)]
            if np.isinf(joint).any():
                assert np.isinf(told).tolist() == np.isinf(joint).tolist(), text
            else:
                np.testing.assert_allclose(np.diff(told), np.diff(joint), rtol=1e-3, atol=1e-3, err_msg=text)
        seen.add(site)
    assert seen or silent
    assert silent <= OPAQUE.get(name, set()), silent


@pytest.mark.slow
def test_latex_says_what_the_text_says(densities):
    """Read back as Python, piece by piece: the text's own structure, whose numbers are tested above."""
    for name, density in densities.items():
        write = Formula([*density.sites, *density.arguments.names], LATEX)
        for site in density.latents:
            conditional = conditional_of(density, site)
            assert conditional.latex.startswith(r"p\left(") and r" \;\propto\; " in conditional.latex
            for part in split(conditional.text.split(" ∝ ")[1], " · "):
                factor = part.split("] ", 1)[1] if part.startswith("∏[") else part
                latex = write.factor(factor)
                assert latex in conditional.latex
                inside, rest = closed(factor)
                given = inside.replace(" | ", ", GIVEN, ", 1)
                plain = f"{factor[: factor.index('(')]}({given}){rest}"
                power = re.fullmatch(r"(.*\\right\))\^\{(.*)\}", latex)
                read = python_of(latex) if power is None else "**".join(map(python_of, power.groups()))
                assert shape_of(read) == shape_of(plain), (name, factor, latex)


@pytest.mark.parametrize(
    ("name", "site", "expected"),
    [
        ("looped_hmm", "s[1]", "Categorical(T[s[0]])"),
        ("looped_hmm", "x[2]", "Normal(m[s[2]], 0.5)"),
        ("mutated_array", "x[2]", "Normal(s[2], 0.5)"),
        ("stacked_means", "x[3]", "Normal(mu[z[3]], 1)"),
        ("wishart_mixture", "y", "MultivariateNormal(mu[z[n]], Sigma[z[n]])"),
        ("bernoulli_mixture", "x", "Bernoulli([0.3, 0.7][p])"),
        ("constants", "z", "Categorical(MATRIX[g[i]])"),
        ("slices", "step", "Normal(level[i+1] - level[i], 0.5)"),
        ("placed", "x", "Normal(mu[1] - gap, 1)"),
        ("modes", "w", 'Normal(mu.at[i[j] - 3].get(mode="clip", wrap_negative_indices=False), 1)'),
        (
            "modes",
            "x",
            'Normal(mu.at[i[j]].get(mode="fill", fill_value=0) + 2 * mu.at[i[j] + 1].get(mode="clip"), 1)',
        ),
    ],
)
def test_short_forms(densities, name, site, expected):
    assert Statement(densities[name], site).right_hand_side() == expected


def test_a_loop_is_told_by_its_rule_and_its_beginning(densities):
    text = conditional_of(densities["looped_hmm"], "s[2]").text
    whole = Statement(rerolled(densities["looped_hmm"]), "s").factor()
    assert "Categorical(s[3] | T[s[2]])" in text
    assert whole == "Categorical(s[t] | T[s[t-1]] if t > 0 else 1/3)"
    change = Statement(rerolled(densities["looped_changepoint"]), "y").factor()
    assert change == "Poisson(y[t] | where(tau > t + 1, early, late))"


def test_a_long_mask_is_called_one():
    def fn(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("n", 60), numpyro.handlers.mask(mask=np.arange(60) % 7 > 0):
            numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    text = str(conditional_of(build_density(fn, (np.arange(60.0),), {}), "mu"))
    assert text.endswith("Normal(y[n] | mu, 1)**mask1[n]")
