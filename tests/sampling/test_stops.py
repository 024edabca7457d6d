"""Runs that are stopped at random moments, or killed, and continued in every way there is."""

import subprocess
import sys
import time

import gibbsite as gb
import numpy as np
import pytest
from helpers import TESTS

SCHEDULES = {
    "finite and NUTS": "Gibbs z (*) NUTS [w p]",
    "conjugate": "Conjugate w (*) Conjugate p (*) Gibbs z",
    "random scan": "random: Gibbs z (*) Slice p (*) Conjugate w",
}
WARMUP, DRAWS = 40, 60
OPTIONS = {"draws": DRAWS, "warmup": WARMUP, "chains": 2, "seed": 1, "keep_warmup": True}
STOPS = [(name, seed) for seed in range(34) for name in SCHEDULES][:100]


@pytest.fixture(scope="module")
def uninterrupted(model):
    runs = {}

    def run(name):
        if name not in runs:
            runs[name] = model.sample(**OPTIONS, schedule=SCHEDULES[name])
        return runs[name]

    return run


def values(run):
    """All that a run has recorded, warm-up and statistics included, by part and name."""
    parts = {
        part: getattr(run.kept, part).read() for part in ("warm", "warm_stats", "sampled", "sampled_stats")
    }
    return {(part, name): v for part, arrays in parts.items() for name, v in arrays.items()}


def agree(part, whole):
    """Every recorded step of `part` is bit for bit that of `whole`; returns the number of steps by part."""
    whole = values(whole)
    counts = {}
    for (name, site), v in values(part).items():
        assert counts.setdefault(name, v.shape[1]) == v.shape[1]
        np.testing.assert_array_equal(v, whole[name, site][:, : v.shape[1]], err_msg=site)
    return counts


def stopped_and_continued(model, name, seed, whole, folder):
    """Stop one to three times, each at a random step; after each stop go on in memory, from a saved run or
    from the store. Both phases are hit: moments are uniform over all steps."""
    rng = np.random.default_rng(seed)
    stored = rng.random() < 0.4
    chunk = int(rng.integers(1, 13))
    moments = sorted(rng.integers(1, WARMUP + DRAWS, size=rng.integers(1, 4)).tolist())
    run = model.start(
        **OPTIONS, schedule=SCHEDULES[name], chunk=chunk, store=folder / "store" if stored else None
    )
    for i, moment in enumerate(moments):
        forget = run.subscribe(lambda r, at=moment: r.stop() if r.kept.steps >= at else None)
        if run.kept.steps >= moment:  # it was past that before we looked
            run.stop()
        run.wait()
        forget()
        assert run.status in ("stopped", "finished")
        counts = agree(run, whole)
        assert run.kept.steps == counts["warm"] + counts.get("sampled", 0)
        assert run.kept.steps >= moment
        way = rng.choice(["memory", "store"] if stored else ["memory", "saved"])
        if way == "saved":
            run.save(folder / f"saved {i}")
            run = gb.load(folder / f"saved {i}", model=model)
        elif way == "store":
            run = gb.load(folder / "store", model=model)
        assert agree(run, whole) == counts
        if run.status != "finished":
            run.continue_()
    run.wait()
    assert agree(run, whole) == agree(whole, whole)
    assert run.status == "finished"


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "seed"), STOPS[:3])
def test_stopped_at_random_moments(model, uninterrupted, tmp_path, name, seed):
    stopped_and_continued(model, name, seed, uninterrupted(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), STOPS[3:])
def test_stopped_at_random_moments_often(model, uninterrupted, tmp_path, name, seed):
    stopped_and_continued(model, name, seed, uninterrupted(name), tmp_path)


PROGRAM = """
import sys, time
sys.path[:0] = {paths!r}
import conftest
from helpers.models.sampling_models import coins, data
import gibbsite as gb
run = gb.model(coins, data()).start(**{options!r}, schedule={schedule!r}, chunk=1, store=sys.argv[1])
run.subscribe(lambda run: (print(run.kept.steps, flush=True), time.sleep(0.02)))
run.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [(name, seed) for seed in range(4) for name in SCHEDULES])
def test_killed_at_random_moments(model, uninterrupted, tmp_path, name, seed):
    """SIGKILL while the process says that it is at a random step; it may be in the middle of a write."""
    rng = np.random.default_rng(seed)
    moment = int(rng.integers(1, WARMUP + DRAWS - 5))
    program = PROGRAM.format(paths=[str(TESTS)], options=OPTIONS, schedule=SCHEDULES[name])
    folder = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            if int(line) >= moment:
                break
        time.sleep(0.02 * rng.random())
        assert process.poll() is None
        process.kill()
    run = gb.load(folder, model=model)
    counts = agree(run, uninterrupted(name))
    assert sum(counts.get(part, 0) for part in ("warm", "sampled")) >= 1
    run.resume()
    assert agree(run, uninterrupted(name)) == agree(uninterrupted(name), uninterrupted(name))
    again = gb.load(folder, model=model)
    assert agree(again, uninterrupted(name)) == agree(run, uninterrupted(name))
