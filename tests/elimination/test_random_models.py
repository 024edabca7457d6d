"""Random models against the sum over all joint values; and faults planted in the elimination, each of which
these sums must find."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.tables import fill
from gibbsite.elimination.steps import chain, ground, plate, semiring
from gibbsite.elimination.tables import collect
from helpers.models.elimination import MODELS, MORE, TERMS, random_case
from helpers.models.zoo import Case
from helpers.truths.marginals import check_marginal

QUICK, ALL = range(4, 6), range(120)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", QUICK)
def test_random_models_are_summed_out_exactly(seed):
    assert check_marginal(random_case(seed)[0], draws=1_000)


@pytest.mark.slow
def test_many_random_models_are_summed_out_exactly():
    wrong, seen = [], set()
    for seed in ALL:
        case, terms = random_case(seed)
        try:
            assert check_marginal(case, draws=1_000)
            seen |= set(terms)
        except AssertionError as problem:
            wrong.append((seed, terms, str(problem)[:200]))
    assert not wrong
    assert seen == set(TERMS)


def dropped_window(patch):
    """The last box of a term that is cut into several is forgotten."""
    real = collect.pieces_of

    def fewer(*args):
        pieces = list(real(*args))
        return pieces[:-1] or pieces

    patch.setattr(collect, "pieces_of", fewer)


def unread_window(patch):
    """The part of a term that reads nothing is taken for all of it."""
    patch.setattr(collect.Tables, "_unread", lambda self, term, found: [])


def swapped_read(patch):
    """The two reads of a pair change places."""
    real = fill.Tabulated._patterns

    def swapped(self):
        out = []
        for factor, *rest in real(self):
            if len(factor.sites) == 2 and factor.sites[0] == factor.sites[1]:
                factor = replace(factor, index=factor.index[::-1])
            out.append((factor, *rest))
        return out

    patch.setattr(fill.Tabulated, "_patterns", swapped)


def wrong_lag(patch):
    """A pair's older read counts as the younger."""
    real = chain._link

    def turned(*args):
        link = real(*args)
        lags = [] if link is None else [lag for name, lag in link.names if name != "outer"]
        if len(lags) < 2:
            return link
        names = tuple((n, lag if n == "outer" else max(lags) - lag) for n, lag in link.names)
        return replace(link, names=names)

    patch.setattr(chain, "_link", turned)


def one_step_late(patch):
    """A table of the chain is complete one step later than it is."""
    real = chain._link

    def late(*args):
        link = real(*args)
        if link is None or link.step.max() == link.step.min():
            return link
        return replace(link, step=np.roll(link.step, 1))

    patch.setattr(chain, "_link", late)


def wrong_rows(patch):
    """Single elements take their neighbours' rows."""
    real = ground.taken
    patch.setattr(ground, "taken", lambda table, index, rows: real(table, np.roll(index, 1), rows))


def wrong_owner(patch):
    """Elements of a plate are summed onto each other's groups."""
    real = plate.rows_onto
    patch.setattr(plate, "rows_onto", lambda table, index, n: real(table, (index + 1) % n, n))


def wrong_context(patch):
    """What is read under one value of a gate stands under its neighbour."""
    real = collect.in_context
    patch.setattr(
        collect,
        "in_context",
        lambda source, site, number, size: real(source, site, (number + 1) % size, size),
    )


def forgotten_times(patch):
    """What is the same in all rows is counted once."""
    real = fill.contribution

    def once(density, piece, ev, rows):
        x = real(density, piece, ev, rows)
        gone = np.prod([n for a, n in enumerate(piece.size) if a not in rows], dtype=int)
        return x / gone

    patch.setattr(fill, "contribution", once)


def loose_weights(patch):
    """Weights that do not sum to one: density right, everything read back wrong."""
    real = semiring.weights
    patch.setattr(semiring, "weights", lambda x: real(x) * jnp.where(x == x.max(axis=0), 1.0, 0.999))


def two_switches(y):
    """A term of many rows that reads two scalars, and one of which the first rows read no site."""
    a = numpyro.sample("a", dist.Normal(0, 1))
    s, t = (numpyro.sample(n, dist.Bernoulli(0.4)) for n in "st")
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
    numpyro.factor("both", a * y * jnp.where(s == t, 1.0, 0.3))
    numpyro.factor("some", jnp.exp(a * (1 + jnp.pad(z, (2, 0)))))


TWO_SWITCHES = Case(two_switches, (np.array([0.3, -1.0, 2.0]),))
FAULTS = {
    dropped_window: MODELS["coupled_chains"],
    unread_window: TWO_SWITCHES,
    swapped_read: MORE["blocks_of_nodes"],
    wrong_lag: MODELS["coupled_chains"],
    one_step_late: MORE["skip_chain"],
    wrong_rows: MODELS["tree"],
    wrong_owner: MODELS["group_over_elements"],
    wrong_context: MORE["mixture_of_experts"],
    forgotten_times: TWO_SWITCHES,
    loose_weights: MODELS["zero_inflated"],
}


@pytest.mark.share(7)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_planted_fault_is_found(fault, monkeypatch):
    fault(monkeypatch)
    with pytest.raises((AssertionError, IndexError, ValueError)):
        check_marginal(FAULTS[fault], draws=200)
