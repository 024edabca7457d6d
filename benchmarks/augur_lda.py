"""LDA as AugurV2 ran it, on Reuters: tokens per second of whole sweeps, against a sampler written by hand.

    python benchmarks/augur_lda.py [K ...]        # default: 50 100 150, AugurV2's numbers of topics

A sweep draws the topic of every token, every document's proportions and every topic's words: the schedule
`Gibbs z (*) Conjugate theta (*) Conjugate phi` that is derived from the model, and the same three draws in
plain JAX with the counts by `segment_sum`. Both draw Dirichlets by Gibbsite's gamma variates, since
`jax.random.dirichlet` takes most of a sweep and would hide what the derivation costs. Both are one compiled
program per sweep, with data as arguments.
AugurV2 (Huang, Tristan, Morrisett 2017, §7) ran the same three sizes on larger texts.
"""

import sys

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.conditional.draws.gamma import Dirichlet
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from sweep_handwritten import draw, lda_model
from timing import interleaved, report

ALPHA = 0.1


def reuters():
    import lda.datasets

    counts = lda.datasets.load_reuters()
    doc, word = np.nonzero(counts)
    times = counts[doc, word]
    return (*(jnp.asarray(np.repeat(a, times), jnp.int32) for a in (doc, word)), *counts.shape)


def by_hand(D, V, K):
    """One sweep in plain JAX: `(key, theta, phi, doc, word) -> (key, theta, phi, z)`."""

    @jax.jit
    def sweep(key, theta, phi, doc, word):
        key, k_z, k_theta, k_phi = jax.random.split(key, 4)
        logits = jnp.log(theta).T[:, doc] + jnp.log(phi)[:, word]
        z = draw(jax.random.uniform(k_z, doc.shape), list(logits))
        ones = jnp.ones(doc.shape, jnp.float32)
        in_doc = jax.ops.segment_sum(ones, doc * K + z, D * K).reshape(D, K)
        in_topic = jax.ops.segment_sum(ones, z * V + word, K * V).reshape(K, V)
        theta = Dirichlet(ALPHA + in_doc).sample(k_theta)
        phi = Dirichlet(ALPHA + in_topic).sample(k_phi)
        return key, theta, phi, z

    return sweep


def run(K):
    doc, word, D, V = reuters()
    plan = gb.model(lda_model, doc, word, D=D, V=V, K=K).plan("Gibbs z (*) Conjugate theta (*) Conjugate phi")
    start = jax.jit(lambda key, inputs: plan.kernel.init(key, 0, None, (), {INPUTS_KWARG: inputs}))
    state = start(jax.random.key(0), plan.inputs)
    step = jax.jit(lambda s, inputs: plan.kernel.sample(s, (), {INPUTS_KWARG: inputs}))
    ours = {"state": state}

    def sweep():
        ours["state"] = step(ours["state"], plan.inputs)
        return ours["state"].z["z"]

    hand = by_hand(D, V, K)
    first = jax.random.dirichlet(jax.random.key(1), jnp.ones(K), (D,))
    last = jax.random.dirichlet(jax.random.key(2), jnp.ones(V), (K,))
    theirs = {"state": (jax.random.key(3), first, last)}

    def hand_sweep():
        *rest, z = hand(*theirs["state"], doc, word)
        theirs["state"] = tuple(rest)
        return z

    times = interleaved({"ours": sweep, "hand": hand_sweep})
    rates = {n: len(doc) / np.min(t) / 1e6 for n, t in times.items()}
    row = report(f"LDA, Reuters, {len(doc)} tokens, K={K}", times, "ours", "hand")
    return f"{row} {rates['ours']:.2f} / {rates['hand']:.2f} |"


if __name__ == "__main__":
    print(
        "| model | generated, ms (min / median) | by hand, ms | ratio of minima | of medians "
        "| million tokens/s, both |"
    )
    print("|---|---|---|---|---|---|")
    for K in [int(a) for a in sys.argv[1:]] or [50, 100, 150]:
        print(run(K), flush=True)
