"""Statements of models as records: tildes, deterministic sites, factors, subsamples, scans, constants."""

import gibbsite
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.printing.statements.model_tape import tape_of_model, track_model
from gibbsite.tape.recording.context import Context
from helpers.models.zoo import ZOO
from helpers.startup.arrays import array

TABLE = array([0.3, 0.7])


def everything(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    twice = numpyro.deterministic("twice", 2 * mu)
    numpyro.deterministic("fixed", 3.0)
    numpyro.factor("weight", -(twice**2))
    with numpyro.plate("n", len(x), subsample_size=3) as rows:
        numpyro.sample("x", dist.Normal(twice, 1.0), obs=x[rows])


def statements(tape):
    return {r.name: r for r in tape.walk() if r.kind in ("deterministic", "factor", "subsample")}


def test_each_statement_has_a_record():
    text = str(tape_of_model(everything, (np.arange(6.0),)))
    assert text.splitlines() == [
        "⟨1⟩ = x = [0 1 2 3 4 5]",
        "⟨2⟩ = Normal(0, 1) → Normal(loc=0, scale=1)",
        "⟨3⟩ = mu ~ ⟨2⟩ → -2.44",
        "⟨4⟩ = multiply(2, ⟨3⟩) → -4.88",
        "⟨5⟩ = twice := ⟨4⟩ → -4.88",
        "⟨6⟩ = fixed := 3 → 3",
        "⟨7⟩ = pow(⟨5⟩, 2) → 23.9",
        "⟨8⟩ = negative(⟨7⟩) → -23.9",
        "⟨9⟩ = weight ∝ exp(⟨8⟩) → -23.9",
        "⟨10⟩ = n ~ 3 of 6 → [3 2 4]",
        "⟨11⟩ = getitem(⟨1⟩, ⟨10⟩) → [3 2 4]",
        "⟨12⟩ = Normal(⟨5⟩, 1) → Normal(loc=-4.88, scale=1)",
        "⟨13⟩ = x ⩪ ⟨12⟩ ← ⟨11⟩",
    ]


def test_what_follows_depends_on_the_statement():
    tape = tape_of_model(everything, (np.arange(6.0),))
    (seen,) = tape.find(site="x")
    assert {r.name for r in tape.backward(seen) if r.name} == {"x", "mu", "twice", "n"}
    (twice,) = tape.find(site="twice")
    assert {r.name for r in tape.forward(twice) if r.name} == {"weight", "x"}
    assert seen.metadata["scale"] == 2.0  # six over three


def test_statements_are_shown_as_such():
    tape = tape_of_model(everything, (np.arange(6.0),))
    page = tape._repr_html_()
    for kind in ("assumption", "deterministic", "factor", "subsample", "observation"):
        assert f'class="leaf tilde {kind}"' in page
    assert tape.to_dot().count("shape=circle") == 6


@pytest.mark.slow
def test_a_scan_is_a_loop_and_its_sites_are_statements():
    case = ZOO["hmm_scan"]
    tape = tape_of_model(case.fn, case.args)
    (loop,) = tape.find(primitive="scan")
    (state,) = tape.find(site="z")
    (seen,) = tape.find(site="x")
    assert state.shapes == (((6,), "int32"),)
    assert loop in tape.backward(state)
    assert seen in tape.forward(loop)
    assert len(list(tape.iterations(loop))) == 6


def test_a_branch_of_a_model_says_which_way():
    case = ZOO["conditional_branch"]
    lines = str(tape_of_model(case.fn, case.args)).splitlines()
    assert "cond(⟨6⟩, ⟨5⟩) by branch 2 of 2" in lines[6]


def test_constants_have_a_name_and_one_record():
    here = jnp.arange(3.0)

    def fn(i):
        return TABLE[i] + TABLE.sum() + here.sum() + jnp.array([1.0, 2.0])[0]

    tape = gibbsite.track(fn, jnp.array(1))
    assert [(r.name, r.op) for r in tape if r.kind == "constant"] == [
        ("TABLE", "constant"),
        ("here", "constant"),
        (None, "constant"),
    ]
    assert "⟨2⟩ = TABLE = [0.3 0.7]" in str(tape)
    assert len(tape.forward(next(r for r in tape if r.name == "TABLE"))) == 6
    np.testing.assert_array_equal(tape.replay(), fn(1))


def test_a_context_sees_constants():
    class Seen(Context):
        def notes(self, step, values, before):
            return {"size": values[0].size} if step.kind == "constant" else {}

    class Dropped(Context):
        def keeps(self, step):
            return step.kind != "constant"

    tape = gibbsite.track(lambda x: x * TABLE, 2.0, context=Seen())
    assert [r.metadata for r in tape if r.kind == "constant"] == [{"size": 2}]
    without = gibbsite.track(lambda x: x * TABLE, 2.0, context=Dropped())
    assert not any(r.kind == "constant" for r in without.walk())
    np.testing.assert_allclose(without.replay(), 2 * TABLE)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["gmm", "hmm_scan", "ising", "nested", "edges"])
def test_the_listing_depends_on_the_model_alone(name: str):
    """No random number generator in it, and every reference has a record."""
    case = ZOO[name]
    tape = tape_of_model(case.fn, case.args, case.kwargs)
    assert not any("key<" in dtype for r in tape if r.kind != "loop" for _, dtype in r.shapes)
    assert "?" not in str(tape)
    drawn = [r for r in track_model(case.fn, case.args, case.kwargs).walk() if r.op.startswith("random_")]
    assert drawn or name == "hmm_scan"


def test_a_model_that_fails_keeps_its_tape():
    def model():
        numpyro.sample("mu", dist.Normal(0, 1))
        raise ValueError("no such data")

    with pytest.raises(ValueError, match="no such data") as caught:
        tape_of_model(model)
    assert [r.name for r in caught.value.tape if r.kind == "assumption"] == ["mu"]


def test_components_of_vectors_are_not_read_by_the_row():
    def clusters(y):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2, 3]).to_event(2))
        with numpyro.plate("n", len(y)):
            components = dist.Normal(mu, 1).to_event(1)
            numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(w), components), obs=y)

    model = gibbsite.model(clusters, np.zeros((5, 3), np.float32))
    assert "MixtureSameFamily(y[n] | Categorical(w), Normal(mu, 1))" in str(model.conditional("w"))


DESIGN = np.sqrt(np.arange(12.0)).reshape(6, 2)


def test_arrays_that_are_defaults_have_their_names_and_means_of_counts_are_printed_as_they_are():
    def counts(y, X=DESIGN, *, exposure=np.linspace(0.3, 2.0, 6) ** 3):  # noqa: B008
        b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
        k = numpyro.sample("k", dist.Gamma(2.0, 0.1))
        numpyro.sample("y", dist.NegativeBinomial2(exposure * jnp.exp(X @ b), k), obs=y)

    printed = str(gibbsite.model(counts, np.arange(6)).conditional("k"))
    assert "NegativeBinomial2(y[i] | exposure[i] * exp(X[i] @ b), k)" in printed
