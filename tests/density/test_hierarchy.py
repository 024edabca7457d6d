"""Which sites have a location or a scale that reads latents: found, against what moves when latents do."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density import rerolled
from gibbsite.density.hierarchy.broadcast_parameters import place_of
from gibbsite.density.hierarchy.location_scale import ELEMENTS, FACTOR, LOGS, RECURSION, WALK, location_scales
from gibbsite.density.hierarchy.non_centred import non_centred_by_hand
from gibbsite.density.hierarchy.residuals import distances
from gibbsite.programs.jaxpr.compat import jaxpr_as_fun
from gibbsite.programs.maps.access import component_array
from gibbsite.programs.passes.replaced import given as given_variables
from helpers.models.hierarchies import GROUP, HIERARCHIES, LOOPED, X, Y, prior_state
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


@pytest.mark.share(9)
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


@pytest.mark.parametrize("name", ["eight schools", "two levels"])
def test_what_is_taken_for_a_distance_is_one(name):
    case, density = HIERARCHIES[name], density_of(name)
    state = density.state_values(prior_state(case.fn, case.args, 1))
    read, found = density.evaluator(state).full, distances(density)
    assert set(found) == {n for n, f in location_scales(density).items() if f.around_its_location}
    for site, variables in found.items():
        form, value = location_scales(density)[site], read(density.latent_vars[site])
        for var in variables:
            np.testing.assert_array_equal(read(var), value - form.read(read)[0])
    # given another one, the site's own density follows, and no other
    given = [*(state[n] for n in sorted(density.latent_vars)), *density.arguments.arrays]
    tree = jax.tree.structure(density.outputs)
    before = jax.tree.unflatten(tree, jaxpr_as_fun(density.closed)(*given))["log_prob"]
    for site, variables in found.items():
        other = jaxpr_as_fun(given_variables(density.closed, variables))(
            *given, *(read(v) + 1 for v in variables)
        )
        after = jax.tree.unflatten(tree, other)["log_prob"]
        assert [n for n in before if not np.array_equal(before[n], after[n])] == [site]


def check_by_hand(density, states):
    """What a site moves its value by is `b` at the element that is read, up to data; and given the value
    every other density is known without the site."""
    for f in non_centred_by_hand(density).values():
        factors = []
        for state in states:
            whole, z = density.evaluator(state), np.asarray(state[f.site])
            moved = density.evaluator({**state, f.site: z + 1 + z**2})
            step = np.asarray(f.read(whole.full)[1]) * (1 + z**2)
            value = np.asarray(whole.full(f.value))
            place = place_of(density, f.value, f.site)
            at = tuple(component_array(c, value.shape, whole.full) for c in place.index)
            factors.append((np.asarray(moved.full(f.value)) - value) / step[at])
            others = {n: a for n, a in density.outputs["log_prob"].items() if n != f.site}
            blind = density.evaluator({**state, f.site: np.full(density.sites[f.site].shape, np.nan)})
            blind.give({f.value: value})
            for atom in others.values():
                np.testing.assert_array_equal(blind.full(atom), whole.full(atom))
        np.testing.assert_allclose(factors[0], factors[1], rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("name", [n for n, c in HIERARCHIES.items() if c.by_hand])
def test_nothing_else_reads_what_was_non_centred_by_hand(name):
    case, density = HIERARCHIES[name], density_of(name)
    check_by_hand(density, [density.state_values(prior_state(case.fn, case.args, seed)) for seed in (0, 1)])


SCALED = ["{s} * {z}", "{z} * {s}", "{z} / (1 / {s})", "-({s} * -{z})", "0.5 * {s} * {z}"]
READ = ["{x}[g]", "jnp.take({x}, g)", "jnp.take({x}, g, mode='clip')", "{x}[g, None][:, 0]"]
PLACED = [
    "{m} + {t}",
    "{t} + {m}",
    "{m} - {t}",
    "b * x + {m} + {t}",
    "{m} + ({t} + b * x)",
    "{t} - b * x + {m}",
]


def written_in_many_ways():
    """Texts of a mean by random turns, with what location and scale of `z` read in it."""
    rng = np.random.default_rng(5)
    for _ in range(24):
        read = rng.choice(READ)
        first = rng.random() < 0.5
        s, m = rng.choice(["tau", "taus", "jnp.exp(lt)"]), rng.choice(["mu", "mus"])

        def once(name, read=read, first=first):
            return name if first or name in ("tau", "mu", "jnp.exp(lt)") else read.format(x=name)

        scaled = rng.choice(SCALED).format(s=once(s), z=once("z"))
        placed = rng.choice(PLACED[:3] if first else PLACED)
        text = placed.format(m=once(m), t=scaled)
        yield (read.format(x=f"({text})") if first else text), m, "lt" if "lt" in s else s


@pytest.mark.share(5)
@pytest.mark.parametrize(("text", "location", "scale"), list(written_in_many_ways()))
def test_written_in_many_ways(text, location, scale):
    mean = eval(f"lambda z, mu, mus, tau, taus, lt, b, g, x: {text}", {"jnp": jnp})

    def model(g, x, y):
        sites = {"mu": dist.Normal(0, 1), "mus": dist.Normal(0, 1).expand([5]), "tau": dist.HalfNormal(1)}
        sites |= {"taus": dist.HalfNormal(1).expand([5]), "lt": dist.Normal(0, 1), "b": dist.Normal(0, 1)}
        values = {n: numpyro.sample(n, d) for n, d in sites.items()}
        z = numpyro.sample("z", dist.Normal(0, 1).expand([5]))
        numpyro.sample("y", dist.Normal(mean(z=z, **values, g=g, x=x), 1.0), obs=y)

    args = (GROUP, X[:, 0], Y)
    density = gb.model(model, *args).density
    (found,) = non_centred_by_hand(density).values()
    assert (found.location, found.scale, found.obstacle) == ((location,), (scale,), None)
    check_by_hand(density, [density.state_values(prior_state(model, args, seed)) for seed in (0, 1)])


@pytest.mark.share(5)
@pytest.mark.parametrize("name", ZOO)
def test_models_without_hierarchies_raise_nothing(name):
    case = ZOO[name]
    density = gb.model(case.fn, *case.args, **case.kwargs).density
    for f in location_scales(density).values():
        assert set(f.reads) <= set(density.latents) - {f.site}
    assert not [f for f in non_centred_by_hand(density).values() if not f.reads]
