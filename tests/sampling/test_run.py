"""What a run promises: every completed draw is kept, however the run was cut, stopped and resumed."""

import os
import signal
import threading
import time

import gibbsite as gb
import jax
import numpy as np
import pytest
from gibbsite import sampling
from gibbsite.errors import GibbsiteError, OptionError, UnknownNameError
from gibbsite.kernels.blocks.metropolis import RandomWalk
from gibbsite.kernels.nuts.block import LearntNUTS
from gibbsite.sampling import wait_interruptibly
from gibbsite.sampling.watch.pace import Pace
from numpyro.distributions import biject_to
from numpyro.infer import MCMC, Gibbs

SCHEDULE = "Gibbs z (*) NUTS [w p]"
OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 1, "schedule": SCHEDULE}


def same(a, b):
    assert a.draws.keys() == b.draws.keys()
    for name in a.draws:
        np.testing.assert_array_equal(a.draws[name], b.draws[name], err_msg=name)


def test_draws_have_chain_draw_and_site_axes(whole):
    shapes = {name: v.shape for name, v in whole.draws.items()}
    assert shapes == {"w": (2, 60, 2), "p": (2, 60, 2), "gap": (2, 60), "z": (2, 60, 12)}
    np.testing.assert_allclose(whole.draws["gap"], np.diff(whole.draws["p"])[..., 0], rtol=1e-6)
    assert whole.status == "finished"


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_the_size_of_chunks_does_not_change_the_draws(model, whole, chunk):
    same(model.sample(**OPTIONS, chunk=chunk), whole)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("kernel", "name", "steps"),
    [(RandomWalk, "RandomWalk", 40), pytest.param(LearntNUTS, "NUTS", 5, marks=pytest.mark.slow)],
)
def test_a_run_is_what_numpyro_draws_with_the_same_kernel(model, kernel, name, steps):
    """The runtime adds nothing to the kernel: NumPyro's own MCMC takes the same first steps."""
    init = {"w": np.array([0.4, 0.6]), "p": np.array([0.3, 0.7]), "z": np.arange(12) % 2}
    schedule = f"Gibbs z (*) {name} [w p]"
    run = model.sample(draws=steps, warmup=0, chains=2, seed=1, schedule=schedule, init=init)
    mcmc = MCMC(
        Gibbs([(gb.FiniteGibbs(model.fn), ["z"]), (kernel(model.fn), ["w", "p"])]),
        num_warmup=0,
        num_samples=steps,
        progress_bar=False,
    )
    free = {n: biject_to(model.sites[n].support).inv(init[n]) for n in ("w", "p")}
    given = free if kernel is LearntNUTS else {n: init[n] for n in free}
    key = jax.random.split(jax.random.key(1), 2)[0]
    mcmc.run(key, *model.args, init_params={"z": init["z"], **given})
    np.testing.assert_allclose(mcmc.get_samples()["p"], run.draws["p"][0], rtol=1e-3)
    np.testing.assert_array_equal(mcmc.get_samples()["z"], run.draws["z"][0])
    assert len(np.unique(run.draws["p"][0, :, 0])) > 1


@pytest.mark.parametrize("after", [0, 3, 11])
def test_stopped_at_any_moment_and_resumed_it_is_the_same_run(model, whole, after):
    run = model.start(**OPTIONS, chunk=5)
    seen = threading.Event()
    run.subscribe(
        lambda r: seen.set() if r.snapshot().warmup_done + r.snapshot().draws_done >= 5 * after else None
    )
    seen.wait(60)
    run.stop()
    run.wait()
    kept = {name: v.copy() for name, v in run.draws.items()}
    assert len({v.shape[1] for v in kept.values()}) == 1
    assert run.status in ("stopped", "finished")
    run.resume()
    same(run, whole)
    for name, v in kept.items():
        np.testing.assert_array_equal(v, run.draws[name][:, : v.shape[1]])


def test_resume_adds_draws(model, whole):
    run = model.sample(**{**OPTIONS, "draws": 20})
    run.resume(draws=40)
    same(run, whole)


@pytest.mark.parametrize("stopped", [False, True])
def test_it_has_ended_once_all_draws_are_measured(model, stopped):
    """Whoever saw "finished" before read the verdict of fewer draws, or of none, and kept it."""
    run, seen = model.start(**OPTIONS | {"draws": 10**6 if stopped else 60}, chunk=10), []
    measure = run._monitor.measure

    def measured(kept, *, ended=False):
        seen.append((run.status, ended))
        measure(kept, ended=ended)

    run._monitor.measure = measured
    if stopped:
        while run.kept.sampled.steps < 10:
            time.sleep(0.01)
        run.stop()
    run.wait()
    assert seen[-1][1] and {status for status, _ in seen} <= {"compiling", "warmup", "sampling"}
    assert run.status == ("stopped" if stopped else "finished")


def test_an_interrupt_keeps_the_draws(model):
    before = signal.getsignal(signal.SIGINT)
    run = model.start(**{**OPTIONS, "draws": 10**6})
    killer = threading.Thread(target=_interrupt_once_sampling, args=(run,))
    killer.start()
    wait_interruptibly(run)
    killer.join()
    assert run.status == "stopped"
    counts = {v.shape[1] for v in run.draws.values()}
    assert len(counts) == 1 and 0 < counts.pop() < 10**6
    assert all(np.isfinite(v).all() for v in run.draws.values())
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_whose_wait_was_interrupted_goes_on_and_is_known_to(model):
    """`Thread.join` would take the thread for ended, and `resume` would begin a second one."""
    run = model.start(**{**OPTIONS, "draws": 10**6})
    killer = threading.Thread(target=_interrupt_once_sampling, args=(run,))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of tests have none
    try:
        killer.start()
        with pytest.raises(KeyboardInterrupt):
            run.wait()
        killer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    steps = run.kept.sampled.steps
    assert run.going and run.wait(0.5).status != "stopped" and run.kept.sampled.steps > steps
    with pytest.raises(gb.GibbsiteError, match="still going"):
        run.resume(5)
    run.stop()
    assert run.wait().status == "stopped" and not run.going
    steps = run.kept.sampled.steps
    assert run.resume(5).kept.sampled.steps == steps + 5


def _interrupt_once_sampling(run):
    while run.snapshot().draws_done < 5:
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_second_run_with_new_data_compiles_nothing(model, whole):
    other = gb.model(model.fn, model.args[0][::-1].copy())
    engine = model.sample(**OPTIONS)._engine  # that of `whole` may have left the store
    run = other.sample(**OPTIONS)
    assert run._engine._programs is engine._programs
    # the same data in another order: draws of z differ, its sites' posterior does not
    assert not np.array_equal(run.draws["z"], whole.draws["z"])


def test_a_second_run_of_the_same_structure_compiles_nothing(model, whole, caplog):
    """No program at all, small ones included: JAX says so itself."""
    other = gb.model(model.fn, model.args[0][::-1].copy())
    model.sample(**OPTIONS)  # those of `whole` may have left the store
    plan = other.plan(SCHEDULE)  # the analysis of the new data runs small operations of its own
    options = {name: v for name, v in OPTIONS.items() if name != "schedule"}
    jax.config.update("jax_log_compiles", True)
    try:
        with caplog.at_level("WARNING", "jax"):
            jax.jit(lambda x: x + len(caplog.text))(1.0)
            assert "Compiling" in caplog.text
            caplog.clear()
            run = sampling.sample(plan, **options)
    finally:
        jax.config.update("jax_log_compiles", False)
    assert run.status == "finished"
    assert "Compiling" not in caplog.text


def test_time_left_is_of_the_mean_pace_of_each_phase():
    pace = Pace()
    assert pace.eta(10, 10) is None
    pace.add(True, 100, 20.0)
    assert pace.eta(50, 1000) == pytest.approx(50 * 0.2 + 1000 * 0.2)
    pace.add(False, 10, 0.5)
    pace.add(False, 10, 1.5)
    assert pace.eta(0, 1000) == pytest.approx(1000 * 0.1)


@pytest.mark.slow
def test_blocks_are_timed_on_request_and_the_run_goes_on_as_if_they_were_not(model, whole):
    other = gb.model(model.fn, *model.args)  # its programs are compiled already
    run = other.start(**{**OPTIONS, "draws": 10**6})
    with pytest.raises(GibbsiteError, match="still going"):
        run.time_blocks()
    run.stop()
    run.wait()
    run = other.sample(**{**OPTIONS, "draws": 20})
    assert [b.seconds_share for b in run.snapshot().blocks] == [None, None]
    seconds = run.time_blocks()
    assert list(seconds) == [b.label for b in run.snapshot().blocks]
    shares = [b.seconds_share for b in run.snapshot().blocks]
    assert min(shares) > 0 and sum(shares) == pytest.approx(1)
    assert shares == pytest.approx(np.array(list(seconds.values())) / sum(seconds.values()))
    run.resume(draws=40)
    same(run, whole)


def test_snapshot_trace_and_history(whole):
    s = whole.snapshot(limit=3)
    assert (s.status, s.draws_done, s.draws_total, s.warmup_done) == ("finished", 60, 60, 40)
    assert len(s.scalars) == 3 and s.scalars[0].rhat >= s.scalars[1].rhat - 0.01  # by two decimals, then ESS
    assert [b.kernel for b in s.blocks] == [b.kernel for b in whole._plan.blocks]
    trace = whole.trace("p[1]", max_points=15)
    assert 7 <= trace.draw.size <= 15 and trace.values.shape == (2, trace.draw.size)
    x = whole.draws["p"][:, :, 1]
    np.testing.assert_array_equal(trace.values, x[:, trace.draw])
    assert trace.low.min() == x.min() and trace.high.max() == x.max()
    assert whole.history().draw[-1] == 60
    with pytest.raises(UnknownNameError, match="did you mean 'gap'"):
        whole.trace("gpa")


def test_final_diagnostics_are_arviz_own(whole):
    from arviz_stats import ess, rhat

    # in double precision, as ours: ranks of distances from the median have ties in single precision
    tree = whole.to_datatree()["posterior"].to_dataset()[["p"]].astype(np.float64)
    ours = {s.label: s for s in whole.diagnostics("p")}
    for i in range(2):
        stat = ours[f"p[{i}]"]
        np.testing.assert_allclose(stat.rhat, rhat(tree)["p"].values[i], rtol=1e-6)
        np.testing.assert_allclose(stat.ess_bulk, ess(tree, method="bulk")["p"].values[i], rtol=1e-6)
        np.testing.assert_allclose(stat.ess_tail, ess(tree, method="tail")["p"].values[i], rtol=1e-6)


def test_datatree_names_plates(whole):
    tree = whole.to_datatree()
    assert tree["posterior"]["z"].dims == ("chain", "draw", "n")
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data"}
    assert "diverging" in tree["sample_stats"]
    assert whole.summary(var_names=["p"]).shape[0] == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("draws", 0),
        ("draws", -5),
        ("draws", 2.5),
        ("warmup", -1),
        ("chains", 0),
        ("seed", "x"),
        ("device", "tpu:9"),
    ],
)
def test_options_that_make_no_sense(model, option, value):
    with pytest.raises(OptionError, match=option):
        model.start(**{**OPTIONS, option: value})


def test_a_scalar_is_found_by_its_label(whole):
    for site, draws in whole.draws.items():
        for index in np.ndindex(draws.shape[2:]):
            label = f"{site}[{', '.join(map(str, index))}]" if index else site
            assert np.array_equal(whole.values(label), draws[(..., *index)])
    for wrong in ("nope", "mu[9]", "mu[0", "mu[-1]", "mu[0, 0]", "mu"):
        with pytest.raises(UnknownNameError):
            whole.values(wrong)
