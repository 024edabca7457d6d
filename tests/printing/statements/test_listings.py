"""The documents' listings in our notation, kept as files."""

from pathlib import Path

import gibbsite
import jax
import jax.numpy as jnp
import pytest
from gibbsite.printing.statements.model_tape import tape_of_model, track_model
from helpers.models.tape_programs import LISTINGS, geom

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.share(3)
@pytest.mark.parametrize("name", LISTINGS)
def test_listing_of_a_model(name: str):
    """The models of thesis §4.1 (listing 4.1) and §4.3 (listing 4.3), against listing 4.2.

    Theirs, of the Bernoulli mixture with `x = false`:

        ⟨2⟩ = false
        ⟨3⟩ = Dirichlet(2, 0.5) → Dirichlet{Float64}(alpha=[0.5, 0.5])
        ⟨4⟩ = w ~ ⟨3⟩ → [0.82, 0.17]
        ⟨5⟩ = DiscreteNonParametric([0.3, 0.7], ⟨4⟩) → DiscreteNonParametric{…}(…)
        ⟨6⟩ = π ~ ⟨5⟩ → 0.3
        ⟨7⟩ = Bernoulli(⟨6⟩) → Bernoulli{Float64}(p=0.3)
        ⟨8⟩ = x ~ ⟨7⟩ ← ⟨2⟩

    and of the hierarchical Gaussian with `x = 1.4`:

        ⟨2⟩ = 1.4
        ⟨3⟩ = Gamma(2.0, 0.33) → Gamma{Float64}(α=2.0, θ=0.33)
        ⟨4⟩ = λ ~ ⟨3⟩ → 0.92
        ⟨5⟩ = /(1, ⟨4⟩) → 1.08
        ⟨6⟩ = sqrt(⟨5⟩) → 1.03
        ⟨7⟩ = Normal(0, ⟨6⟩) → Normal{Float64}(μ=0.0, σ=1.03)
        ⟨8⟩ = m ~ ⟨7⟩ → 1.85
        ⟨9⟩ = /(1, ⟨4⟩) → 1.08
        ⟨10⟩ = sqrt(⟨9⟩) → 1.03
        ⟨11⟩ = Normal(⟨8⟩, ⟨10⟩) → Normal{Float64}(μ=1.85, σ=1.03)
        ⟨12⟩ = x ~ ⟨11⟩ ← ⟨2⟩

    Of the GMM and the HMM the thesis prints the models only. Ours count from ⟨1⟩ (theirs is the model
    itself), name the data, write `⩪` where the site is observed, keep a constant array on a line of its own,
    pick π out of [0.3 0.7] by a categorical index (NumPyro has no DiscreteNonParametric), and parametrise
    Gamma by its rate. The plate of the GMM is one statement, where theirs has one for each observation.
    """
    if name in ("gmm", "hmm") and jax.__version_info__ < (0, 10, 2):
        pytest.skip("the number that an array is filled with is no constant of that operation there")
    fn, args = LISTINGS[name]
    text = str(tape_of_model(fn, args, seed=0)) + "\n"
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    # versions of JAX call it by either name
    assert text.replace("broadcast_in_dim(", "full(") == golden.replace("broadcast_in_dim(", "full(")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.skipif(
    jax.__version_info__ >= (0, 11), reason="unpacking an array is one operation there, not six"
)
def test_listing_of_geom():
    """Thesis §3.1, figure 3.1: the list of `geom(1, 0.6)`, three levels of it.

    Theirs has the arguments @1 to @3, the call of `rand`, the comparison, a jump because of @6, the addition
    @7, the nested `@8 = geom(@7, @3)` with value 4 and a list of the same shape inside, and the return @9.
    Ours has the same, with the random key split and passed on explicitly and the jump called "decide".
    """
    tape = gibbsite.track(geom, jnp.array(1), 0.6, jax.random.key(19))
    assert tape.to_text(3) + "\n" == (GOLDEN / "geom.txt").read_text(encoding="utf-8")
    calls = list(tape.find("geom"))
    assert [len(c.index) for c in calls] == [1, 2, 3]
    assert all(int(c.value) == int(tape.result) == 4 for c in calls)


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
