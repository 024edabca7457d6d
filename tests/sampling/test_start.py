"""What a run refuses to start from, in words that say where to look."""

import inspect

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from gibbsite.errors import ArgumentError, ModelError, OptionError, ResourceError, UnknownNameError
from gibbsite.sampling.engine import resources
from gibbsite.sampling.options import Options
from gibbsite.sampling.start import foretold, known_options, made
from helpers.models.sampling_models import rates

SCHEDULE = "Gibbs z (*) NUTS [w p]"
OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 1, "schedule": "Gibbs z (*) NUTS [w p]"}


@pytest.mark.slow
def test_starting_values_are_where_chains_start(model):
    z = np.arange(12) % 2
    p = np.array([[0.2, 0.8], [0.7, 0.1]])
    plan = model.plan(OPTIONS["schedule"])
    import jax
    from gibbsite.sampling.engine.initial import checked_starts
    from gibbsite.sampling.engines import engine_for
    from gibbsite.sampling.run import Settings

    starts = checked_starts(plan, 2, {"z": z, "p": p})
    assert starts["z"].shape == (2, 12) and starts["p"].shape == (2, 2)
    engine, _ = engine_for(plan, Settings(60, 40, 2, 1), None)
    engine.compile()
    state, _ = engine.init(jax.random.key(0), starts)
    found = jax.vmap(engine.kernel.postprocess_fn((), {"_gibbsite_inputs": plan.inputs}))(state.z)
    np.testing.assert_array_equal(found["z"], np.stack([z, z]))
    np.testing.assert_allclose(found["p"], p, rtol=1e-5)
    run = model.sample(**OPTIONS, init={"z": z, "p": p})
    again = model.sample(**OPTIONS, init={"z": z, "p": p}, chunk=3)
    np.testing.assert_array_equal(run.draws["z"], again.draws["z"])


@pytest.mark.parametrize(
    ("init", "said"),
    [
        ({"p": [0.5, 1.5]}, r"'p' is outside its support .* at index \[1\]: 1.5"),
        ({"p": np.nan * np.ones(2)}, r"'p' is outside its support"),
        ({"z": np.full(12, 2)}, r"'z' is outside its support"),
        ({"p": 0.5}, r"'p' has shape \(2,\); got \(\)"),
        ({"p": np.ones((3, 2)) / 2}, r"one per chain: \(2, 2\)"),
        ({"z": np.full(12, 0.5)}, r"'z' holds whole numbers"),
    ],
)
def test_starting_values_that_cannot_be(model, init, said):
    with pytest.raises(OptionError, match=said):
        model.start(**OPTIONS, init=init)


def test_thousands_of_shares_sum_to_one_as_well_as_float32_can():
    from gibbsite.sampling.engine.initial import checked_starts

    def shares():
        numpyro.sample("p", dist.Dirichlet(jnp.full(4000, 0.5)))

    plan = gb.model(shares).plan()
    p = np.random.default_rng(0).dirichlet(np.full(4000, 0.5)).astype(np.float32)
    assert checked_starts(plan, 2, {"p": p * np.float32(1 + 2e-6)})["p"].shape == (2, 4000)
    for wrong in (p * np.float32(1.001), np.append(p[:-1], -p[-1])):
        with pytest.raises(OptionError, match="'p' is outside its support"):
            checked_starts(plan, 2, {"p": wrong})


def test_starting_values_of_what_is_no_latent_site(model):
    for name in ("y", "gap", "q"):
        with pytest.raises(UnknownNameError, match=f"no latent site named '{name}'"):
            model.start(**OPTIONS, init={name: 1.0})


@pytest.mark.slow
def test_a_density_that_is_not_finite_names_site_row_and_value():
    x = np.ones(6, np.float32)
    x[4] = np.inf
    y = np.arange(6, dtype=np.float32)
    bad = gb.model(rates, y, x)
    said = r"2 of 2 chains .* observed site 'y', at index \[4\].*log-probability (-inf|nan) for the value 4"
    with pytest.raises(ModelError, match=said):
        bad.sample(draws=5, warmup=5, chains=2, schedule="NUTS a")


def shares(y):
    a = numpyro.sample("a", dist.Gamma(2.0, 0.1))
    numpyro.sample("y", dist.Beta(2 + a, 2.0), obs=y)


@pytest.mark.slow
def test_a_datum_at_the_edge_of_what_can_be_is_told_as_one():
    y = np.array([0.4, 1.0, 0.7], np.float32)
    with pytest.raises(ModelError, match=r"at index \[1\].* value 1.0, the edge of what can be.*Smithson"):
        gb.model(shares, y).sample(draws=5, warmup=5, chains=2, schedule="NUTS a")


def ordered():
    with numpyro.plate("r", 6):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([4]).to_event(1))
        numpyro.factor("order", jnp.where((jnp.diff(z) > 0).all(-1), 0.0, -jnp.inf))


@pytest.mark.slow
def test_a_factor_that_no_start_fulfils_is_told_as_one():
    with pytest.raises(
        ModelError, match=r"factor 'order', at index \[\d\].* is -inf: what it asks of the draws"
    ):
        gb.model(ordered).sample(draws=5, warmup=5, chains=2, schedule="NUTS z", rescue=False)


@pytest.mark.slow
def test_a_density_that_is_not_finite_in_a_program_that_was_compiled_for_other_data():
    x, y = np.ones(6, np.float32), np.arange(6, dtype=np.float32)
    options = {"draws": 5, "warmup": 5, "chains": 2, "schedule": "NUTS a"}
    assert gb.model(rates, y, x).sample(**options).status == "finished"
    x[1] = np.nan
    with pytest.raises(ModelError, match=r"observed site 'y', at index \[1\]"):
        gb.model(rates, y, x, check_values=False).sample(**options)


def test_a_density_that_is_not_finite_under_blocks_without_gradients():
    x = np.ones(6, np.float32)
    x[2] = np.inf
    bad = gb.model(rates, np.arange(6, dtype=np.float32), x)
    with pytest.raises(ModelError, match=r"observed site 'y', at index \[2\]"):
        bad.sample(draws=5, warmup=5, chains=2, schedule="RandomWalk a")


def bounded(y):
    top = numpyro.sample("top", dist.Gamma(1.0, 1.0))
    numpyro.sample("y", dist.Uniform(0, top), obs=y)


@pytest.mark.slow
def test_starts_that_the_data_rule_out_are_drawn_again():
    """One prior draw in five lies above the data; the posterior is a gamma cut off below."""
    y = np.array([0.4, 1.6, 0.9], np.float32)
    options = {"draws": 1000, "warmup": 200, "chains": 4, "schedule": "Slice top"}
    run = gb.model(bounded, y).sample(**options)
    draws = np.asarray(run.draws["top"])
    assert draws.min() > 1.6
    grid = np.linspace(1.6, 40, 400_000)
    weight = np.exp(-grid) * grid**-3
    exact = (weight @ grid) / weight.sum()
    ess = float(array_stats.ess(draws, chain_axis=0, draw_axis=1))
    assert ess > 400
    assert abs(draws.mean() - exact) < 4 * draws.std() / np.sqrt(ess)
    y[1] = -1.0
    with pytest.raises(ModelError, match=r"4 of 4 chains .* observed site 'y'.* -inf for the value"):
        gb.model(bounded, y, check_values=False).sample(**options)


@pytest.mark.slow
def test_devices(model):
    with pytest.raises(OptionError, match=r"no device 'cpu:99' here; JAX sees: cpu"):
        model.start(**OPTIONS, device="cpu:99")
    with pytest.raises(OptionError, match="no device 'quantum' here"):
        model.start(**OPTIONS, device="quantum")
    run = model.sample(**OPTIONS, device="auto")
    assert "JAX sees no accelerator" in run.device


class Accelerator:
    platform = "gpu"


@pytest.mark.parametrize(("chains", "chosen"), [(2, "cpu"), (100_000, "gpu")])
def test_auto_weighs_the_size_of_a_step(model, monkeypatch, chains, chosen):
    plan = model.plan(OPTIONS["schedule"])
    real = resources.jax.local_devices
    monkeypatch.setattr(
        resources.jax,
        "local_devices",
        lambda backend=None: real(backend=backend) if backend else [Accelerator()],
    )
    place = resources.choose_device("auto", plan, chains)
    assert place.devices[0].platform == chosen
    size = chains * (2 + 2 + 1 + 12 + 12)
    assert f"{size:,} numbers" in place.reason


@pytest.mark.slow
def test_draws_that_do_not_fit_into_memory(model, monkeypatch, caplog):
    monkeypatch.setattr(resources, "available_memory", lambda: 2**20)
    many = {**OPTIONS, "draws": 100_000}
    with pytest.raises(ResourceError, match=r"needs 13\.0 MiB .* 1\.0 MiB are free; the .* 'z'") as refused:
        model.start(**many)
    said = str(refused.value)
    assert "draws=5882, thin=17: the same sweeps, of which one in 17 is kept" in said
    assert "keep='gap': all draws of these, and mean and spread of w, p, z" in said
    # What it proposes does fit.
    plan = model.plan(SCHEDULE)
    assert resources.planned(plan, 2, 5882, 40, False, 17).host < 2**20
    assert resources.planned(plan, 2, 100_000, 40, False, 1, ["gap"]).host < 2**20
    monkeypatch.setattr(resources, "available_memory", lambda: 2**23)
    with pytest.raises(ResourceError, match="keep='gap,w,p': all draws of these, and mean and spread of z"):
        model.start(**many)
    monkeypatch.undo()
    run = model.sample(**OPTIONS)
    assert "KiB of memory for the draws" in str(run.memory) and not foretold(run)
    monkeypatch.setattr(resources.Estimate, "long", True)
    with caplog.at_level("WARNING", "gibbsite"):
        model.sample(**OPTIONS)
    assert "60 draws × 2 chains" in caplog.text and "an interrupt keeps what is there" in caplog.text


def test_a_device_that_runs_out_of_memory(model, whole, monkeypatch):
    run = model.sample(**{**OPTIONS, "draws": 10}, chunk=10)
    programs, calls = run._engine._programs, []
    real = programs["advance"]

    def full(*args):
        calls.append(args)
        if len(calls) == 6:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes")
        return real(*args)

    before = run.kept.steps
    monkeypatch.setitem(programs, "advance", full)
    with pytest.raises(ResourceError, match="Lower chains, or raise thin; draws that are complete are kept"):
        run.resume(draws=60)
    monkeypatch.undo()
    assert run.status == "failed" and run.kept.steps == before + 50  # all that came before is there
    run.resume()
    for name, v in whole.draws.items():
        np.testing.assert_array_equal(run.draws[name][:, :60], v)


@pytest.mark.slow
def test_new_data_and_pointwise_likelihoods(model, whole):
    tree = whole.to_datatree(posterior_predictive=True, log_likelihood=True)
    y, p, z = model.args[0], whole.draws["p"], whole.draws["z"]
    new = tree["posterior_predictive"]["y"]
    assert new.dims == ("chain", "draw", "n") and new.shape == (2, 60, 12)
    assert new.values.min() >= 0 and new.values.max() <= 10
    expected = 10 * np.take_along_axis(p, z, axis=2)
    error = (new.values - expected).mean()
    assert abs(error) < 4 * np.sqrt(10 * 0.25 / new.size)
    ours = dist.Binomial(10, jnp.asarray(np.take_along_axis(p, z, axis=2))).log_prob(y)
    np.testing.assert_allclose(tree["log_likelihood"]["y"].values, ours, rtol=1e-4, atol=1e-4)
    again = whole.to_datatree(posterior_predictive=True)["posterior_predictive"]["y"]
    np.testing.assert_array_equal(again.values, new.values)


def test_names_of_dimensions(whole):
    tree = whole.to_datatree(dims={"p": ["coin"]}, coords={"coin": ["bent", "fair"]})
    assert tree["posterior"]["p"].dims == ("chain", "draw", "coin")
    assert tree["posterior"]["coin"].values.tolist() == ["bent", "fair"]
    assert tree["posterior"]["z"].dims == ("chain", "draw", "n")


def test_type_checkers_and_help_know_the_options_of_a_run():
    asked = inspect.signature(made).parameters
    assert set(Options.__annotations__) == {n for n, p in asked.items() if p.kind is p.KEYWORD_ONLY} - {
        "analysed"
    }
    for method in (gb.Model.sample, gb.Model.start):
        shown = inspect.signature(method).parameters
        assert list(shown)[:2] == ["self", "schedule"]
        assert {n: shown[n].default for n in Options.__annotations__} == {
            n: asked[n].default for n in Options.__annotations__
        }


@pytest.mark.parametrize(
    ("theirs", "ours"), [("tune", "warmup"), ("num_samples", "draws"), ("target_accept", "schedule")]
)
def test_options_of_other_packages_are_told_what_they_are_called_here(theirs, ours):
    with pytest.raises(ArgumentError, match=f"no option '{theirs}'; here it is '{ours}'"):
        known_options({theirs: 10})
