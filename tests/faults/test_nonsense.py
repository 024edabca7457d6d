"""Nonsense for every option and argument: told in one sentence before anything is made, or it works."""

from pathlib import Path

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import GibbsiteError
from gibbsite.sampling.start import made
from helpers.models.sampling_models import coins, data
from helpers.startup.arrays import array, key

NONSENSE = {
    "None": None, "True": True, "0": 0, "-1": -1, "1.5": 1.5, "nan": np.nan, "inf": np.inf, "huge": 10**30,
    "''": "", "blank": " ", "word": "nope", "bytes": b"x", "NUL": "a\0b", "[]": [], "()": (), "{}": {},
    "set": set(), "nested": [[]], "list": [1], "dict": {"a": 1}, "numbered": {1: 2}, "object": object(),
    "function": lambda: 0, "int64": np.int64(3), "float32": np.float32(2), "empty": np.array([]),
    "texts": np.array(["a"]), "nans": np.full(3, np.nan), "jax": array([1.0, 1.0]), "long": "x" * 5000,
    "type": type, "slice": slice(None),
}  # fmt: skip
OPTIONS = {"draws": 2, "warmup": 2, "chains": 2}
STATE = {"w": np.ones(2) / 2, "p": np.ones(2) / 2}
KEY = key(0)
NONE, FLAG, WHOLE = "None", "None True", "int64"


@pytest.fixture(scope="module")
def model():
    return gb.model(coins, data())


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    run = model.sample(draws=40, warmup=4, chains=2, schedule="Gibbs z (*) Conjugate [w p]")
    run.save(tmp_path_factory.mktemp("nonsense") / "saved")
    return run


@pytest.fixture(scope="module")
def saved(run, tmp_path_factory):
    return next(tmp_path_factory.getbasetemp().glob("nonsense*/saved"))


# options of a run, with what of the above each of them takes
TAKEN = {
    "draws": WHOLE, "warmup": f"0 {WHOLE}", "chains": WHOLE, "seed": f"0 {WHOLE}", "thin": WHOLE,
    "chunk": f"{NONE} {WHOLE}", "max_draws": f"{NONE} {WHOLE}", "keep": NONE, "until": NONE, "device": NONE,
    "shard": NONE, "init": f"{NONE} {{}}", "store": f"{NONE} word", "resume": NONE, "keep_warmup": "True",
    "keep_probs": "True", "durable": "True", "schedule": NONE, "host": NONE,
}  # fmt: skip


@pytest.mark.parametrize("option", TAKEN)
def test_options_of_a_run(model, option, tmp_path, monkeypatch):
    def make(value):
        schedule = value if option == "schedule" else None
        return made(model.plan(schedule), **{**OPTIONS, **({} if option == "schedule" else {option: value})})

    told_or_taken(make, TAKEN[option], tmp_path, monkeypatch)


ARGUMENTS = {
    "Model.schedule": (lambda m, r, s, v: m.schedule(v), NONE),
    "Model.conditional": (lambda m, r, s, v: m.conditional(v), ""),
    "Model.marginal": (lambda m, r, s, v: m.marginal(v), ""),
    "Model.marginal(order=)": (lambda m, r, s, v: m.marginal("z", order=v), NONE),
    "Model.eliminate": (lambda m, r, s, v: m.eliminate(v), ""),
    "Model.condition": (lambda m, r, s, v: m.condition(v), ""),
    "Model.condition(p=)": (lambda m, r, s, v: m.condition(p=v), "True 0 list jax"),
    "Model.do": (lambda m, r, s, v: m.do(v), ""),
    "Model.reparam": (lambda m, r, s, v: m.reparam(v), ""),
    "Model.reparam(p=)": (lambda m, r, s, v: m.reparam(p=v), ""),
    "model(missing=)": (lambda m, r, s, v: gb.model(coins, data(), missing=v), NONE),
    "model(check_values=)": (lambda m, r, s, v: gb.model(coins, data(), check_values=v), "True"),
    "Conditional.logits": (lambda m, r, s, v: m.conditional("z").logits(v), ""),
    "Conditional.logits(p)": (lambda m, r, s, v: m.conditional("z").logits({**STATE, "p": v}), "jax"),
    "Conditional.sample(key)": (lambda m, r, s, v: m.conditional("z").sample(v, STATE), ""),
    "Conditional.sample(state)": (lambda m, r, s, v: m.conditional("z").sample(KEY, v), ""),
    "Marginal.logdensity": (lambda m, r, s, v: m.marginal("z").logdensity(v), ""),
    "Marginal.sample": (lambda m, r, s, v: m.marginal("z").sample(v, STATE), ""),
    "Marginal.moments": (lambda m, r, s, v: m.marginal("z").moments(v), ""),
    "load": (lambda m, r, s, v: gb.load(v), ""),
    "load(model=)": (lambda m, r, s, v: gb.load(s, model=v), NONE),
    "load(device=)": (lambda m, r, s, v: gb.load(s, model=m, device=v), NONE),
    "load(partial=)": (lambda m, r, s, v: gb.load(s, partial=v), "True"),
    "verify": (lambda m, r, s, v: gb.verify(v), ""),
    "joined": (lambda m, r, s, v: gb.joined(v), ""),
    "Run.resume": (lambda m, r, s, v: r.resume(v), f"{NONE} {WHOLE}"),
    "Run.extend": (lambda m, r, s, v: r.extend(v), ""),
    "Run.extend(max_draws=)": (lambda m, r, s, v: r.extend("ess>1", max_draws=v), WHOLE),
    "Run.wait": (lambda m, r, s, v: r.wait(v), "None 0 1.5 inf huge int64 float32"),
    "Run.save": (lambda m, r, s, v: r.save(v), "word"),
    "Run.report": (lambda m, r, s, v: r.report(v), "word"),
    "Run.plot": (lambda m, r, s, v: r.plot(v), ""),
    "Run.plot(view=)": (lambda m, r, s, v: r.plot(view=v), NONE),
    "Run.plot(beside=)": (lambda m, r, s, v: r.plot(beside=v), NONE),
    "Run.trace": (lambda m, r, s, v: r.trace(v), ""),
    "Run.values": (lambda m, r, s, v: r.values(v), ""),
    "Run.diagnostics": (lambda m, r, s, v: r.diagnostics(v), NONE),
    "Run.compare": (lambda m, r, s, v: r.compare(v), ""),
    "Run.derive": (lambda m, r, s, v: r.derive(v), ""),
    "Run.derive(name=)": (lambda m, r, s, v: (r.derive("p[0]", name=v), r.forget(v or "p[0]")), "None word"),
    "Run.summary(var_names=)": (lambda m, r, s, v: r.summary(var_names=v, kind="stats"), NONE),
    "Run.to_datatree(dims=)": (lambda m, r, s, v: r.to_datatree(dims=v), "None {}"),
    "Run.to_datatree(dims: p)": (lambda m, r, s, v: r.to_datatree(dims={"p": v}), "[] ()"),
    "Run.to_datatree(coords=)": (lambda m, r, s, v: r.to_datatree(coords=v), "None {}"),
    "Run.to_datatree(coords: n)": (lambda m, r, s, v: r.to_datatree(coords={"n": v}), ""),
    "Run.to_datatree(warmup=)": (lambda m, r, s, v: r.to_datatree(warmup=v), NONE),
    "Run.to_datatree(log_likelihood=)": (lambda m, r, s, v: r.to_datatree(log_likelihood=v), "True"),
    "Run.to_datatree(posterior_predictive=)": (
        lambda m, r, s, v: r.to_datatree(posterior_predictive=v),
        "True",
    ),
}


@pytest.mark.share(45)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arguments(model, run, saved, argument, tmp_path, monkeypatch):
    call, taken = ARGUMENTS[argument]
    told_or_taken(lambda v: call(model, run, saved, v), taken, tmp_path, monkeypatch)


def told_or_taken(make, taken, folder: Path, monkeypatch):
    monkeypatch.chdir(folder)
    worked, long, before = [], [], set(folder.iterdir())
    for name, value in NONSENSE.items():
        try:
            make(value)
            worked.append(name)
        except GibbsiteError as error:
            long += [name] if len(str(error)) > 1500 else []
            assert set(folder.iterdir()) == before, name  # nothing is left behind
        before = set(folder.iterdir())
    assert worked == [n for n in NONSENSE if n in taken.split()] and not long
