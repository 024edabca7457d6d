"""The documents' listings in our notation, kept as files."""

from pathlib import Path

import gibbsite
import jax
import pytest
from gibbsite.density.model_tape import tape_of_model, track_model
from tape_programs import LISTINGS, geom

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", LISTINGS)
def test_listing_of_a_model(name: str):
    """Thesis, listing 4.2 (Bernoulli mixture, hierarchical Gaussian) and listing 4.3 (GMM, HMM).

    Theirs, for the Gaussian: `⟨3⟩ = Gamma(2.0, 0.33) → Gamma{…}(α=2.0, θ=0.33)`, `⟨4⟩ = λ ~ ⟨3⟩ → 0.92`,
    `⟨5⟩ = /(1, ⟨4⟩) → 1.08`, `⟨6⟩ = sqrt(⟨5⟩) → 1.03`, …, `⟨12⟩ = x ~ ⟨11⟩ ← ⟨2⟩`. Here data come first, an
    observed statement has the sign `⩪`, and a plate is one line.
    """
    fn, args = LISTINGS[name]
    text = str(tape_of_model(fn, args, seed=0)) + "\n"
    assert text == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 80


def test_listing_of_geom():
    """Thesis, figure 3.1: `@8 = geom(@7, @3)` holds a list of the same shape; the jump is our "decide"."""
    tape = gibbsite.track(geom, 1, 0.3, jax.random.key(1))
    assert tape.to_text(3) + "\n" == (GOLDEN / "geom.txt").read_text(encoding="utf-8")
    calls = list(tape.find("geom"))
    assert [len(c.index) for c in calls] == [1, 2, 3, 4]
    assert all(c.value == tape.result == 5 for c in calls)


def test_statements_are_found_by_site():
    tape = tape_of_model(*LISTINGS["hmm"])
    (state,) = tape.find(site="s[1]")
    before = {r.name for r in tape.backward(state)}
    assert {"s[0]", "T[0]", "T[1]"} <= before
    assert not {"m[0]", "s[2]", "x[0]"} & before
    (seen,) = tape.find(site="x[2]")
    assert seen.kind == "observation"
    assert seen in tape.forward(state)


def test_the_full_run_draws_too():
    full = track_model(*LISTINGS["bernoulli_mixture"])
    assert len(full) > len(tape_of_model(*LISTINGS["bernoulli_mixture"]))
    assert [r.name for r in full if r.kind == "assumption"] == ["w", "p"]
