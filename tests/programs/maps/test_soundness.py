"""No array may move where its index maps say that it cannot: the worst bug that there could be."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.programs.maps import index_maps as walk
from gibbsite.programs.maps import rules
from gibbsite.programs.maps.access import along, constant
from gibbsite.programs.passes.flatten import flatten
from helpers.models.program_functions import FUNCTIONS
from helpers.models.programs import MIXES, STEPS
from helpers.models.zoo import ZOO
from helpers.truths.perturbation import astray, check_program, misses, moves, program, truth

SAMPLE = range(40)


def fuzz(seeds):
    total = missed = 0
    for seed in seeds:
        n, m = check_program(seed)
        total, missed = total + n, missed + m
    return total, missed


def test_random_programs():
    total, missed = fuzz(SAMPLE)
    assert total > 10_000
    assert missed == 0


def test_indices_stay_within_their_site():
    """Also where a table of rows leads out of the part of an array that a site is in."""
    assert not [told for seed in SAMPLE for told in astray(seed)]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs(block):
    """Ten thousand programs in blocks, each forgotten when it is checked."""
    total = missed = 0
    for seed in range(1000 + 500 * block, 1500 + 500 * block):
        n, m = check_program(seed)
        total, missed = total + n, missed + m
        truth.cache_clear()
        program.cache_clear()
    jax.clear_caches()
    assert total > 100_000
    assert missed == 0


def primitives(jaxpr):
    return {e.primitive.name for e in jaxpr.eqns}


# rules that no step reaches: operations that models have no use for, or that JAX only makes in derivatives
UNREACHED = frozenset(
    "cholesky_update copy_p geqrf hessenberg householder_product igamma_grad_a lu_pivots_to_permutation "
    "mul_add pvary random_gamma_grad schur svd tridiagonal_solve".split()
) | ({"log2", "one_minus_square", "polynomial"} if not hasattr(jax.lax, "polynomial") else set())


def test_the_steps_reach_every_rule():
    x, index, rng = jnp.arange(6.0) / 3, jnp.array([0, 2, 1, 5, 3, 4]), np.random.default_rng(0)
    raw, flat = set(), set()
    made = [maker(rng) for name, maker in STEPS.items() for _ in range(16) if name != "elementwise"]
    made += [lambda x, i, f=f: f(x) for f in FUNCTIONS]
    made += [lambda x, i, f=f: f(x, i, i) for f in MIXES]
    for step in made:
        closed = jax.make_jaxpr(step)(x, index)
        raw |= primitives(closed.jaxpr)
        flat |= primitives(flatten(closed).jaxpr)
    assert set(walk.RULES) - flat == UNREACHED, "a rule needs a step in tests/helpers/models/programs.py"
    # calls and loops are taken apart before the rules; primitives without one are answered "everything"
    calls = {"custom_jvp_call", "custom_vjp_call", "jit", "remat2"}
    assert calls | ({"stack"} if hasattr(jax.lax, "stack") else set()) <= raw - flat
    assert {"reduce", "reduce_window_max", "conv_general_dilated"} <= flat - set(walk.RULES)


@pytest.mark.share(15)
@pytest.mark.parametrize("name", ZOO)
def test_models(name):
    case = ZOO[name]
    density = gb.model(case.fn, *case.args, **case.kwargs).density
    states = [case.state(0), case.state(3 if name == "sprinkler" else 1)]
    order = sorted(density.latent_vars)
    inputs = [jnp.asarray(states[0][n], density.sites[n].dtype) for n in order]
    inputs += [jnp.asarray(a) for a in density.arguments.arrays]
    sites = {n: (i, np.asarray(states[1][n])) for i, n in enumerate(order)}
    total, missed = misses(density.maps, moves(density.closed, inputs, sites))
    assert total > 0
    assert missed == 0


def nowhere(eqn, args, p):
    """A rule that says: every output element reads only the operand's first."""
    shape = rules.shape_of(eqn)
    exprs = [constant(len(shape), 0)] * len(args[0].shape)
    return [rules.Arg(shape, rules.moved(args[0], exprs, shape))] * len(eqn.outvars)


def in_place(eqn, args, p):
    """A rule that says: every output element reads only the operand's at the same place."""
    shapes = [rules.shape_of(eqn, i) for i in range(len(eqn.outvars))]
    rank = len(args[0].shape)
    exprs = [[along(len(s), a) if a < len(s) else constant(len(s), 0) for a in range(rank)] for s in shapes]
    return [rules.Arg(s, rules.moved(args[0], e, s)) for s, e in zip(shapes, exprs, strict=True)]


def nothing(eqn, args, p):
    """A rule that says: outputs depend on nothing."""
    return [rules.Arg(rules.shape_of(eqn, i), {}) for i in range(len(eqn.outvars))]


BUGS = {
    "slice": in_place,
    "rev": in_place,
    "transpose": in_place,
    "cumsum": in_place,
    "sort": in_place,
    "pad": in_place,
    "split": in_place,
    "concatenate": in_place,
    "dynamic_slice": in_place,
    "dynamic_update_slice": in_place,
    "scatter": in_place,
    "scatter-add": in_place,
    "cond": nothing,
    "scan": nothing,
    "while": nothing,
    "reshape": nowhere,
    "squeeze": nowhere,
    "broadcast_in_dim": nowhere,
    "reduce_sum": nowhere,
    "reduce_max": nothing,
    "argmax": nothing,
    "gather": nowhere,
    "dot_general": nothing,
    "select_n": nothing,
    "mul": nothing,
    "stop_gradient": nothing,
    "tile": in_place,
    "triangular_solve": in_place,
    "cholesky": in_place,
    "top_k": in_place,
    "reduce_min": nothing,
    "convert_element_type": nothing,
}


@pytest.mark.share(5)
@pytest.mark.parametrize("primitive", BUGS)
def test_a_planted_bug_is_caught(monkeypatch, primitive):
    """The fuzz can fail: with one rule wrong, some array moves where it was said not to."""
    monkeypatch.setitem(walk.RULES, primitive, BUGS[primitive])
    using = (seed for seed in range(300) if primitive in primitives(program(seed)[0].jaxpr))
    assert any(check_program(seed)[1] for seed in using)


def test_everything_is_the_answer_for_an_unknown_primitive(monkeypatch):
    monkeypatch.delitem(walk.RULES, "mul")
    total, missed = fuzz(range(10))
    assert total > 0 and missed == 0
