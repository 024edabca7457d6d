"""No array may move where its index maps say that it cannot: the worst bug that there could be."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import pytest
from density.perturbation import check_program, misses, moves
from gibbsite.density import index_maps as walk
from gibbsite.density import provenance_rules as rules
from gibbsite.density.access import along, constant
from zoo import ZOO


def fuzz(seeds):
    total = missed = 0
    for seed in seeds:
        n, m = check_program(seed)
        total, missed = total + n, missed + m
    return total, missed


def test_random_programs():
    total, missed = fuzz(range(50))
    assert total > 3000
    assert missed == 0


@pytest.mark.slow
def test_many_random_programs():
    total, missed = fuzz(range(1000, 11_000))
    assert total > 600_000
    assert missed == 0


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
    shape = rules._shape(eqn)
    exprs = [constant(len(shape), 0)] * len(args[0].shape)
    return [rules.Arg(shape, rules._moved(args[0], exprs, shape))] * len(eqn.outvars)


def in_place(eqn, args, p):
    """A rule that says: every output element reads only the operand's at the same place."""
    shapes = [rules._shape(eqn, i) for i in range(len(eqn.outvars))]
    rank = len(args[0].shape)
    exprs = [[along(len(s), a) if a < len(s) else constant(len(s), 0) for a in range(rank)] for s in shapes]
    return [rules.Arg(s, rules._moved(args[0], e, s)) for s, e in zip(shapes, exprs, strict=True)]


def nothing(eqn, args, p):
    """A rule that says: outputs depend on nothing."""
    return [rules.Arg(rules._shape(eqn, i), {}) for i in range(len(eqn.outvars))]


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
}


@pytest.mark.parametrize("primitive", BUGS)
def test_a_planted_bug_is_caught(monkeypatch, primitive):
    """The fuzz can fail: with one rule wrong, some array moves where it was said not to."""
    monkeypatch.setitem(walk.RULES, primitive, BUGS[primitive])
    assert any(check_program(seed)[1] for seed in range(50))


def test_everything_is_the_answer_for_an_unknown_primitive(monkeypatch):
    rules_left = {k: v for k, v in walk.RULES.items() if k != "mul"}
    monkeypatch.setattr(walk, "RULES", rules_left)
    total, missed = fuzz(range(10))
    assert total > 0 and missed == 0
