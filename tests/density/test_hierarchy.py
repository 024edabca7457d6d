"""Which sites have a location or a scale that reads latents: found, against what moves when latents do."""

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.density import rerolled
from gibbsite.density.hierarchy.by_hand import non_centred_by_hand
from gibbsite.density.hierarchy.location_scale import ELEMENTS, FACTOR, LOGS, RECURSION, WALK, location_scales
from helpers.models.hierarchies import HIERARCHIES, LOOPED, prior_state
from helpers.models.zoo import ZOO


def density_of(name):
    case = HIERARCHIES[name]
    return gb.model(case.fn, *case.args).density


@pytest.mark.parametrize("name", HIERARCHIES)
def test_found_as_declared(name):
    case, density = HIERARCHIES[name], density_of(name)
    found = location_scales(density)
    assert {n: (f.location, f.scale) for n, f in found.items()} == case.declared
    by_hand = {n: f for n, f in non_centred_by_hand(density).items() if f.obstacle is None}
    assert {n: (f.location, f.scale) for n, f in by_hand.items()} == case.by_hand


def test_a_group_of_sites_is_one_hierarchy():
    density = gb.model(LOOPED.fn, *LOOPED.args).density
    grouped = location_scales(rerolled(density))
    assert {n: (f.location, f.scale, f.elementwise) for n, f in grouped.items()} == {
        "t": (("mu",), ("tau",), True)
    }
    assert set(location_scales(density)) == {f"t[{i}]" for i in range(4)}


def test_forms():
    forms = {
        "eight schools": ("theta", ELEMENTS),
        "log scales": ("rates", LOGS),
        "gaussian process": ("f", FACTOR),
        "random walk": ("h", WALK),
        "autoregressive": ("h", RECURSION),
    }
    for name, (site, form) in forms.items():
        found = location_scales(density_of(name))[site]
        assert found.form == form
        assert found.elementwise == (form in (ELEMENTS, LOGS))


def test_an_unknown_sign_is_told():
    found = non_centred_by_hand(density_of("unknown sign"))["z"]
    assert "above 0" in found.obstacle


def moved(read, density, state, latent):
    """Whether either of two arrays changes with a latent, elements of which are pushed in turn."""
    before = read(density.evaluator(state).full)
    value = np.asarray(state[latent], np.float32)
    flat = [np.array(value), np.array(value)]
    for k, factor in enumerate((1.1, 0.7)):
        flat[k] = value * factor if latent not in ("z",) else value + factor
    outs = [read(density.evaluator({**state, latent: v}).full) for v in flat]
    return tuple(any(not np.array_equal(a, o[i]) for o in outs) for i, a in enumerate(before))


@pytest.mark.parametrize("name", HIERARCHIES)
def test_they_read_what_they_say(name):
    case, density = HIERARCHIES[name], density_of(name)
    found = [f for f in location_scales(density).values() if f.elementwise]
    found += non_centred_by_hand(density).values()
    state = density.state_values(prior_state(case.fn, case.args, 1))
    for f in found:
        for latent in density.latents:
            location, scale = moved(f.read, density, state, latent)
            assert (latent in f.location, latent in f.scale) == (location, scale), (f, latent)
        loc, scale = f.read(density.evaluator(state).full)
        assert loc.shape == scale.shape == density.sites[f.site].shape


@pytest.mark.parametrize("name", [n for n, c in HIERARCHIES.items() if c.by_hand])
def test_nothing_else_reads_what_was_non_centred_by_hand(name):
    """The value is a + b z, and given it every other density is known without z."""
    case, density = HIERARCHIES[name], density_of(name)
    for seed in range(3):
        state = density.state_values(prior_state(case.fn, case.args, seed))
        for f in non_centred_by_hand(density).values():
            whole = density.evaluator(state)
            loc, scale = f.read(whole.full)
            value = np.asarray(whole.full(f.value))
            np.testing.assert_allclose(
                value.ravel(), (loc + scale * state[f.site]).ravel(), rtol=1e-5, atol=1e-6
            )
            others = {n: a for n, a in density.outputs["log_prob"].items() if n != f.site}
            blind = density.evaluator({**state, f.site: np.full(density.sites[f.site].shape, np.nan)})
            blind.give({f.value: value})
            for atom in others.values():
                np.testing.assert_array_equal(blind.full(atom), whole.full(atom))


@pytest.mark.parametrize("name", ZOO)
def test_models_without_hierarchies_raise_nothing(name):
    case = ZOO[name]
    density = gb.model(case.fn, *case.args, **case.kwargs).density
    for f in location_scales(density).values():
        assert set(f.reads) <= set(density.latents) - {f.site}
    assert not [f for f in non_centred_by_hand(density).values() if not f.reads]
