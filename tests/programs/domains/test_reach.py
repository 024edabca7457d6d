"""What is said not to be reached, not to be needed or not to be felt does not move, and has no slope."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.liveness import needed_by
from gibbsite.programs.jaxpr import primitives
from gibbsite.programs.jaxpr.compat import Literal, bind_equation
from gibbsite.programs.jaxpr.primitives import FLAT, smooth_operands
from gibbsite.programs.jaxpr.walker import back, behind, made_by, reached
from helpers.models.programs import random_program
from helpers.truths.perturbation import INDEX, N, everything, truth, values

SEEDS = range(12)


@pytest.mark.slow
def test_what_moves_is_reached_and_what_reaches_it_is_behind_it():
    moved = still = 0
    for seed in SEEDS:
        closed, moves = truth(seed)
        jaxpr = closed.jaxpr
        inputs = dict(zip(("z", "y"), jaxpr.invars[:2], strict=True))
        live = behind(made_by(jaxpr), jaxpr.outvars)
        assert set(live) == set(back(jaxpr, dict.fromkeys(jaxpr.outvars, True), lambda e, i, out: True, max))
        for move in moves:
            found = reached(jaxpr, [inputs[move.site]])
            assert set(move.real) <= found
            moved += len(move.real)
            still += sum(v not in found for v in move.values[0])
            assert all(inputs[move.site] in set(behind(made_by(jaxpr), [v])) for v in move.real)
    assert moved > 100 and still > 100


def slopes(closed, found):
    """By primitive, whether results move with operands that no gradient is said to pass, at these values."""
    out = {}
    for eqn in closed.jaxpr.eqns:
        passing = {id(a) for a in smooth_operands(eqn)}
        shut = [i for i, a in enumerate(eqn.invars) if id(a) not in passing and a.aval.dtype.kind == "f"]
        if not shut or eqn.outvars[0].aval.dtype.kind != "f" or eqn.primitive.name in out:
            continue
        operands = [jnp.asarray(a.val if isinstance(a, Literal) else found[a]) for a in eqn.invars]

        def run(*xs, eqn=eqn, shut=shut, operands=operands):
            given = dict(zip(shut, xs, strict=True))
            return bind_equation(eqn, [given.get(i, x) for i, x in enumerate(operands)])[0]

        at = [operands[i] for i in shut]
        _, along = jax.jvp(run, at, [jnp.ones_like(x) for x in at])
        out[eqn.primitive.name] = bool(np.any(np.asarray(along) != 0))
    return out


@pytest.mark.slow
def test_what_no_gradient_passes_has_no_slope(monkeypatch):
    closed = everything()
    found = values(closed, jnp.linspace(-3.0, 4.0, N, dtype=jnp.float32), jnp.asarray(INDEX))
    assert slopes(closed, found) == dict.fromkeys(["sign", "floor", "ceil", "round", "stop_gradient"], False)
    used = {e.primitive.name for e in closed.jaxpr.eqns}
    assert used >= FLAT
    monkeypatch.setattr(primitives, "FLAT", FLAT | {"exp"})
    assert slopes(closed, found)["exp"]


@pytest.mark.slow
def test_elements_that_are_not_needed_move_nothing():
    """Of the random programs' arrays; an element is left out where the data alone say so."""
    left_out = moved = 0
    for seed in (0, 3, 5, 8, 13, 21):
        program, (z, y, index, _, other) = random_program(seed)

        def model(program=program, z=z, y=y, index=index):
            x = numpyro.sample("y", dist.Normal(0, 1).expand(y.shape).to_event(2))
            numpyro.deterministic("out", program(z, x, index)[:4])

        density = gb.model(model).density
        atom = density.outputs["deterministic"]["out"]
        needed = needed_by(density, [atom]).get(density.latent_vars["y"], np.zeros(y.shape, bool))
        before, others, all_moved = (
            np.asarray(density.evaluator({"y": jnp.asarray(v)}).full(atom))
            for v in (y, np.where(needed, y, other), other)
        )
        np.testing.assert_array_equal(before, others)
        left_out += int((~needed).sum())
        moved += int((before != all_moved).sum())
    assert left_out >= 5 and moved > 5
