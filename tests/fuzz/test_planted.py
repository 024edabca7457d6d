"""Faults of every family that was ever found, planted again: what is asked of random models must see them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.conditional.reads.reduce import reduce_onto
from helpers.claims.models import check, drawn
from helpers.claims.runs import check_reach, check_run
from helpers.models.grammar import CALM, FIND_AND_SHRINK, Program, programs
from hypothesis import given, settings


def program(*lines: str, x=(0.94, 1.03), g=(2, 0), keep=(True, False), dtype="uint8") -> Program:
    source = "def model(x, g, keep):\n" + "".join(f"    {line}\n" for line in lines)
    return Program(source, np.array(x), np.array(g, dtype), np.array(keep))


OUTSIDE = program(
    "mu = numpyro.sample('mu', dist.Normal(0.3, 2.0).expand([3]).to_event(1))",
    "with numpyro.plate('n', 2):",
    "    read = mu.at[3 - g].get(mode='fill', fill_value=0.5)",
    "    numpyro.sample('x', dist.Normal(2.0 * read - 1.0, 1.5), obs=x)",
)
PADDED = program(
    "with handlers.mask(mask=jnp.array([True, True, False])):",
    "    mu = numpyro.sample('mu', dist.Normal(0.3, 2.0).expand([3]))",
    "with handlers.mask(mask=keep), numpyro.plate('n', 2):",
    "    numpyro.sample('x', dist.Normal(mu[g // 2], 1.5), obs=x)",
)
POINT = program(
    "mu = numpyro.sample('mu', dist.Delta(0.7))",
    "numpyro.sample('x', dist.Normal(mu, 1.0).to_event(0), obs=x)",
)
IMPROPER = program(
    "mu = numpyro.sample('mu', dist.ImproperUniform(dist.constraints.real, (), ()).expand([3]).to_event(1))",
    "with numpyro.plate('n', 2):",
    "    numpyro.sample('x', dist.Normal(mu[g], 1.5), obs=x)",
)
SWITCHED = program(
    "mu = jnp.array([-1.0, 0.5, 2.0])",
    "with numpyro.plate('n', 2):",
    "    z = numpyro.sample('z', dist.Categorical(jnp.array([0.2, 0.3, 0.5])))",
    "    numpyro.sample('x', dist.Normal(mu[(z + g) % 3], 1.5), obs=x)",
    dtype="int32",
)
RING = program(
    "with numpyro.plate('n', 4):",
    "    z = numpyro.sample('z', dist.Bernoulli(jnp.array([0.2, 0.5, 0.7, 0.4])))",
    "numpyro.factor('f', (jnp.array([0.5, -1.0, 2.0, 0.3]) * z * z[jnp.array([1, 2, 3, 0])]).sum())",
)
NARROW = program(
    "with numpyro.plate('n', 2):",
    "    z = numpyro.sample('z', dist.Categorical(jnp.array([0.2, 0.3, 0.5])))",
    "numpyro.factor('f', 0.01 * jnp.sum((z.astype(jnp.int8) * jnp.int8(100)).astype(float)))",
)
RISING = program(
    "mu = numpyro.sample('mu', dist.Uniform(0.1, 2.0).expand([2]).to_event(1))",
    "numpyro.factor('f', (4.0 * jnp.log(mu) + 3.0 * mu).sum())",
)
BENT = program(
    "mu = numpyro.sample('mu', dist.Uniform(-1.0, 1.0))",
    "numpyro.factor('f', 2.0 * mu**2)",
)
CUT = program(
    "mu = numpyro.sample('mu', dist.TruncatedNormal(0.0, 1.0, low=0.5, high=1.5))",
    "numpyro.sample('x', dist.Normal(mu, 0.5).expand([2]).to_event(1), obs=x)",
)
XOR = program(
    "a = numpyro.sample('a', dist.Bernoulli(0.3))",
    "b = numpyro.sample('b', dist.Bernoulli(0.4))",
    "numpyro.factor('f', jnp.where(a != b, 0.0, -jnp.inf))",
)
FIXED_SUM = program(
    "with numpyro.plate('n', 3):",
    "    z = numpyro.sample('z', dist.Bernoulli(jnp.array([0.2, 0.5, 0.7])))",
    "numpyro.factor('f', jnp.where(z.sum() == 2, 0.0, -jnp.inf))",
)
UNHELD = program(
    "b = numpyro.sample('b', dist.Normal(jnp.zeros(2), 1.0))",
    "numpyro.factor('f', 0.5 * b[1] ** 2)",
)


def unweighted(term, value, read):
    return value


def neighbours(*args):
    return jnp.roll(reduce_onto(*args), 1)


def anywhere(key, bent):
    return bent.low + (bent.high - bent.low) * jax.random.uniform(key, jnp.shape(bent.low))


def at_the_mode(key, d):
    return d.mode + 0.01 * jax.random.normal(key, jnp.shape(d.mode))


PLANTED = {
    "out of range": (OUTSIDE, "gibbsite.printing.elements.copies._in_range", lambda *args: True),
    "masks forgotten": (PADDED, "gibbsite.density.terms.Term.contribution", unweighted),
    "padding": (PADDED, "gibbsite.modelling.missing.flat_elements", lambda density: {}),
    "point masses": (POINT, "gibbsite.density.model.collect.check_atoms", lambda *args: None),
    "improper": (IMPROPER, "gibbsite.modelling.analysis.check_proper", lambda density: None),
    "a neighbour's data": (OUTSIDE, "gibbsite.conditional.forms.walk.reduce_onto", neighbours),
    "a neighbour's table": (SWITCHED, "gibbsite.conditional.reads.reduce.reduce_onto", neighbours),
    "a neighbour's pairs": (RING, "gibbsite.conditional.finite.finite.reduce_onto", neighbours),
    "a rate below zero": (RISING, "gibbsite.conditional.draws.truncated.sample_bent", anywhere),
    "a precision below zero": (BENT, "gibbsite.conditional.draws.truncated.sample_bent", anywhere),
    "narrow numbers": (NARROW, "gibbsite.programs.domains.degree._adds_up", lambda eqn: True),
    "an interval": (CUT, "gibbsite.conditional.draws.truncated.sample_log_concave", at_the_mode),
}
RIGHT = (OUTSIDE, PADDED, POINT, IMPROPER, SWITCHED, RING, NARROW, RISING, BENT, CUT)


@pytest.fixture(autouse=True)
def compile_anew():
    """Draws are of programs as they are now, faults included."""
    drawn.clear_cache()
    yield
    drawn.clear_cache()


@pytest.mark.share(3)
@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault, monkeypatch):
    """What the fuzzer asks of a model fails with the fault, and is met without."""
    case, where, broken = PLANTED[fault]
    monkeypatch.setattr(where, broken)
    with pytest.raises((AssertionError, IndexError, OverflowError)):
        check(case)


@pytest.mark.share(3)
@pytest.mark.parametrize("case", RIGHT, ids=range(len(RIGHT)))
def test_what_faults_were_planted_in_is_right(case):
    check(case)


@pytest.mark.parametrize("case", [XOR, pytest.param(FIXED_SUM, marks=pytest.mark.slow)], ids=["xor", "sum"])
def test_schedules_that_cannot_cross_are_found(case, monkeypatch):
    monkeypatch.setattr("gibbsite.plans.candidates.alone.joint_blocks", lambda facts, units: {})
    with pytest.raises(AssertionError, match="of the draws of each chain"):
        check_reach(case, 60)


@pytest.mark.slow
@pytest.mark.parametrize("case", [XOR, FIXED_SUM], ids=["xor", "sum"])
def test_default_schedules_cross(case):
    check_reach(case)


def test_runs_that_are_not_finite_are_found(monkeypatch):
    """Told by the run as it is; with that taken away, seen in its draws."""
    assert "b[1] is nan in chain" in check_run(UNHELD)
    monkeypatch.setattr("gibbsite.sampling.execution.first_undefined", lambda plan, chunk: None)
    with pytest.raises(AssertionError, match="b"):
        check_run(UNHELD)


@pytest.mark.slow
def test_what_fails_is_shrunk_to_a_short_program():
    """Hypothesis finds the shortest text with a fault: here, that a mask stands in it."""
    found: list[Program] = []

    @settings(max_examples=60, phases=FIND_AND_SHRINK, derandomize=True, **CALM)
    @given(programs())
    def masked(one):
        if "mask=keep" in one.source:
            found.append(one)
            raise AssertionError(one)

    with pytest.raises(AssertionError):
        masked()
    last = found[-1]
    assert len(last.x) == 2 and "sample('z'" not in last.source, last
    assert len(last.source) < max(len(p.source) for p in found)
