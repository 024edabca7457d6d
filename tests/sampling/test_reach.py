"""No run out of reach, and none disturbed: errors carry it, views cannot end it, threads cannot double it."""

import shutil
import threading
from types import SimpleNamespace

import gibbsite as gb
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import GibbsiteError, ModelError, OptionError, StoreError
from gibbsite.sampling import execution as run_module
from gibbsite.storage import checkpoint, committing
from gibbsite.views.run.words import progress


def tiny(y=1.0):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a, 1.0), obs=y)


@pytest.fixture(scope="module")
def small():
    return gb.model(tiny)


ZEROS, HALF = np.zeros(3, np.float32), np.float32(0.5)
OPTIONS = {"draws": 2000, "warmup": 10, "chains": 2}


def test_whatever_leaves_a_blocking_sample_carries_the_run(small, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    said = []
    monkeypatch.setattr(checkpoint, "write", full)
    monkeypatch.setattr(committing, "_LARGE", 0)  # every commit is a checkpoint, and one follows every chunk
    monkeypatch.setattr(run_module, "_STORE_SHARE", np.inf)
    with pytest.raises(StoreError, match="No space left") as told:
        small.sample(
            **OPTIONS,
            chunk=200,
            store=tmp_path / "run",
            on_start=lambda run: run.subscribe(lambda r: said.append(r.snapshot().warnings)),
        )
    assert told.value.run.draws["a"].shape == (2, 2000)  # it went on in memory
    assert any("No space left" in w.text for w in said[-2])  # and was told while it did


def test_how_old_the_last_commit_is_and_whether_the_disk_will_do(small, tmp_path, monkeypatch):
    def looked(store):
        seen = []
        small.sample(
            **OPTIONS,
            chunk=200,
            store=store,
            on_start=lambda run: run.subscribe(lambda r: seen.append(r.snapshot())),
        )
        return seen

    shots = looked(tmp_path / "run")
    assert shots[-1].stored is None and all(s.stored.age is None or s.stored.age < 60 for s in shots[:-1])
    middle = next(s for s in shots if s.draws_done == 1000)
    assert 4000 < middle.stored.wanted < 12_000 and not middle.warnings  # 8000 bytes in memory
    assert "on disk" in progress(middle) and "on disk" not in progress(shots[-1])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    middle = next(s for s in looked(tmp_path / "other") if s.draws_done == 1000)
    assert "100 B left" in middle.warnings[0].text
    assert looked(None)[0].stored is None


def test_runs_of_the_process(small):
    run = small.sample(**OPTIONS)
    assert gb.runs()[-1] is run


def test_a_subscriber_or_dashboard_that_raises_does_not_end_the_run(small, caplog):
    called = 0

    def boom(_):
        nonlocal called
        called += 1
        raise RuntimeError("boom")

    run = small.sample(**OPTIONS, chunk=100, on_start=lambda r: r.subscribe(boom))
    assert run.status == "finished" and called == 1 and "subscriber" in caplog.text
    shown = small.sample(**OPTIONS, on_start=boom)
    assert shown.status == "finished" and "was to show" in caplog.text


def test_two_threads_do_not_both_continue_a_run(small, monkeypatch):
    whole = small.sample(**OPTIONS)
    run = small.sample(**{**OPTIONS, "draws": 100})
    real, inside, refused = gb.Run._ready_engine, threading.Barrier(2, timeout=20), []

    def slow(self):
        engine = real(self)
        if threading.current_thread().name.startswith("continuing"):
            inside.wait()  # until the other has been refused
        return engine

    monkeypatch.setattr(gb.Run, "_ready_engine", slow)

    def go():
        try:
            run.continue_(1900)
        except GibbsiteError as error:
            refused.append(error)
            inside.wait()

    threads = [threading.Thread(target=go, name=f"continuing {i}") for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.wait()
    assert len(refused) == 1 and "still going" in str(refused[0])
    np.testing.assert_array_equal(run.draws["a"], whole.draws["a"])


def test_draws_cannot_be_written_to(small):
    draws = small.sample(**OPTIONS).draws["a"]
    with pytest.raises(ValueError):
        draws[0, 0] = 5.0
    with pytest.raises(ValueError):
        draws.flags.writeable = True


def test_settings_of_the_thread_hold_in_the_run():
    with jax.enable_x64(True):
        wide = gb.model(tiny)
        assert wide.sample(**OPTIONS).draws["a"].dtype == np.float64
    assert wide.sample(**OPTIONS).draws["a"].dtype == np.float64  # what it was traced for
    narrow = gb.model(tiny)
    with jax.enable_x64(True):
        assert narrow.sample(**OPTIONS).draws["a"].dtype == np.float32


def test_random_keys_of_another_kind(small, tmp_path):
    with jax.default_prng_impl("rbg"):
        small.sample(**{**OPTIONS, "draws": 30}, store=tmp_path / "run")
        gb.load(tmp_path / "run", model=small).resume(10)
        again = small.sample(**{**OPTIONS, "draws": 40})
    np.testing.assert_array_equal(gb.load(tmp_path / "run").draws["a"], again.draws["a"])
    with pytest.raises(GibbsiteError, match="jax_default_prng_impl"):
        gb.load(tmp_path / "run", model=small).resume(10)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("draws", 1.5), ("draws", "10"), ("chains", 10**7), ("chains", 1.0), ("seed", 2**63), ("thin", 2**40),
        ("keep", 5), ("until", 5), ("init", 5), ("init", {"a": "x"}), ("store", 5), ("store", "\0"),
        ("store", b"x"), ("shard", 5), ("device", 3), ("max_draws", 0), ("keep_warmup", "no"), ("durable", 5),
        ("until", "ess>1.2.3"), ("until", "ess>."), ("until", "ess>1e400"), ("until", "rhat<1"),
    ],
)  # fmt: skip
def test_options_are_checked_in_words(small, option, value):
    with pytest.raises(OptionError, match=option):
        small.start(**{**OPTIONS, option: value})


@pytest.mark.parametrize(
    "option",
    ["HMC(num_steps=0)", "HMC(num_steps=-3)", "HMC(trajectory_length=-1)", "HMC(step_size=0)", "HMC(nope=1)",
     "NUTS(target_accept_prob=2)", "NUTS(max_tree_depth=0)", "NUTS(centring='x')", "Slice(width=0)"],
)  # fmt: skip
def test_options_of_kernels_are_checked_in_words(small, option, tmp_path):
    with pytest.raises(GibbsiteError, match=option.partition("(")[2].partition("=")[0]):
        small.start(**OPTIONS, schedule=f"{option} a", store=tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_names_that_files_and_trees_spell_otherwise(tmp_path):
    names = ["arm/mu", "chain", "q\"u'o", "back\\slash", "x" * 150, "naïve 数据"]

    def named(y=HALF):
        total = sum(numpyro.sample(n, dist.Normal(0.0, 1.0)) for n in names)
        numpyro.sample("y", dist.Normal(total, 1.0), obs=y)

    model = gb.model(named)
    run = model.sample(draws=20, warmup=5, chains=2, store=tmp_path / "run")
    assert "in a run's DataTree, where no name has a slash, 'arm/mu' is 'arm.mu'" in model.notes
    back = gb.load(tmp_path / "run", model=model)
    tree = back.to_datatree()["posterior"].to_dataset()
    for name in names:
        np.testing.assert_array_equal(back.draws[name], run.draws[name])
        np.testing.assert_array_equal(tree[name.replace("/", ".")].values, run.draws[name])
    table = run.summary()
    assert set(table.index) == {n.replace("/", ".") for n in names}
    np.testing.assert_allclose(table["mean"]["chain"], run.draws["chain"].mean(), rtol=1e-5)


def test_dimensions_that_are_called_as_no_dimension_can_be():
    def pair(y=HALF):
        b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(b.sum(), 1.0), obs=y)

    run = gb.model(pair).sample(draws=6, warmup=5, chains=2)
    for name, called in (("chain", "chain_"), ("arm/n", "arm.n"), ("rows", "rows")):
        tree = run.to_datatree(dims={"b": [name]}, coords={"rows": ["u", "v", "w"]})
        assert tree["posterior"]["b"].dims == ("chain", "draw", called)
    with pytest.raises(OptionError, match="'b' has 1 axes"):
        run.to_datatree(dims={"b": ["rows", "columns"]})


def test_a_name_of_a_site_and_of_a_plate():
    def twice(y=ZEROS):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        with numpyro.plate("a", 3):
            numpyro.sample("y", dist.Normal(a, 1.0), obs=y)

    with pytest.raises(ModelError, match="a site and of a plate"):
        gb.model(twice)


def test_names_that_would_be_one_variable():
    def apart(first, second, y=HALF):
        b = numpyro.sample(first, dist.Normal(0.0, 1.0)) + numpyro.sample(second, dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(b, 1.0), obs=y)

    with pytest.raises(ModelError, match=r"would both be called 'arm\.mu'"):
        gb.model(apart, "arm/mu", "arm.mu")
    assert gb.model(apart, "arm/mu", "mu.arm").sites


def test_models_are_traced_one_at_a_time():
    """NumPyro's handlers are one stack for all threads: without the lock their sites get mixed up."""
    found, errors = [], []

    def make():
        try:
            found.append(list(gb.model(tiny).sites))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and found == [["a", "y"]] * 4


def test_a_run_that_is_stopped_before_its_first_step_can_be_loaded(tmp_path):
    model = gb.model(lambda y=HALF: tiny(y))
    run = model.start(**OPTIONS, store=tmp_path / "run")
    run.stop()
    run.wait()
    assert run.status == "stopped" and run.draws["a"].shape[1] == 0
    back = gb.load(tmp_path / "run", model=model)
    assert back.draws["a"].shape == (2, 0)
    back.resume(draws=50)
    np.testing.assert_array_equal(back.draws["a"], model.sample(**{**OPTIONS, "draws": 50}).draws["a"])
