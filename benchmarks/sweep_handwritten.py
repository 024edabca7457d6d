"""One sweep of a generated Gibbs kernel against the same update written by hand in JAX.

    python benchmarks/sweep_handwritten.py [gmm] [lda] [hmm]

Both draw from the same conditional with one uniform per element (inverse distribution function, unrolled over
K) and take the data as arguments. LDA runs on the Reuters articles of the `lda` package; its topics and
proportions are held, as for the other models: what is timed is the sweep over the discrete site.
"""

import sys
from functools import partial, reduce

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import lax
from jax.scipy.special import logsumexp
from timing import interleaved, report


def draw(u, logits):
    """One index per element of `u` from `logits`, a list of K arrays; unrolled over K, which is fast here."""
    top = reduce(jnp.maximum, logits)
    sums = [jnp.exp(logits[0] - top)]
    for v in logits[1:]:
        sums.append(sums[-1] + jnp.exp(v - top))
    mark = u * sums[-1]
    index = jnp.zeros(u.shape, jnp.int32)
    for s in sums[:-1]:
        index += s <= mark
    return index


def gmm(x, K=3):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([K]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


@jax.jit
def gmm_by_hand(key, w, mu, x):
    logits = [jnp.log(w[k]) - 0.5 * (x - mu[k]) ** 2 for k in range(len(w))]
    return draw(jax.random.uniform(key, x.shape), logits)


def run_gmm(n=100_000):
    rng = np.random.default_rng(0)
    x = rng.normal(size=n).astype(np.float32) + rng.choice([-3, 0, 3], n)
    x = jnp.asarray(x, jnp.float32)
    c = gb.model(gmm, x).conditional("z")
    state = {"w": jnp.array([0.2, 0.3, 0.5]), "mu": jnp.array([-3.0, 0.0, 3.0])}
    key = jax.random.key(0)
    fns = {
        "ours": sweep_of(c, key, state),
        "hand": lambda: gmm_by_hand(key, state["w"], state["mu"], x),
    }
    assert agree(fns)
    return report(f"GMM, K=3, N={n}", interleaved(fns), "ours", "hand")


def sweep_of(conditional, key, state):
    """The update as a compiled kernel calls it: latents and data as arguments."""
    update, data = jax.jit(conditional.update), tuple(conditional.density.arguments.arrays)
    return lambda: update(key, state, data)


def agree(fns):
    """Whether two samplers with the same uniforms differ in hardly any element (rounding at an edge)."""
    a, b = (np.asarray(f()) for f in fns.values())
    return np.mean(a != b) < 1e-3


def lda_model(doc, word, D, V, K=20):
    theta = numpyro.sample("theta", dist.Dirichlet(0.1 * jnp.ones(K)).expand([D]).to_event(1))
    phi = numpyro.sample("phi", dist.Dirichlet(0.1 * jnp.ones(V)).expand([K]).to_event(1))
    with numpyro.plate("tokens", len(doc)):
        z = numpyro.sample("z", dist.Categorical(theta[doc]))
        numpyro.sample("w", dist.Categorical(phi[z]), obs=word)


@jax.jit
def lda_by_hand(key, theta, phi, doc, word):
    logits = jnp.log(theta).T[:, doc] + jnp.log(phi)[:, word]
    return draw(jax.random.uniform(key, doc.shape), list(logits))


def run_lda(K=20):
    import lda.datasets

    counts = lda.datasets.load_reuters()
    doc, word = np.nonzero(counts)
    times = counts[doc, word]
    doc, word = (jnp.asarray(np.repeat(a, times), jnp.int32) for a in (doc, word))
    D, V = counts.shape
    c = gb.model(lda_model, doc, word, D=D, V=V, K=K).conditional("z")
    keys = jax.random.split(jax.random.key(1), 2)
    state = {
        "theta": jax.random.dirichlet(keys[0], jnp.ones(K), (D,)),
        "phi": jax.random.dirichlet(keys[1], jnp.ones(V), (K,)),
    }
    key = jax.random.key(0)
    fns = {
        "ours": sweep_of(c, key, state),
        "hand": lambda: lda_by_hand(key, state["theta"], state["phi"], doc, word),
    }
    assert agree(fns)
    return report(f"LDA, Reuters, {len(doc)} tokens, K={K}", interleaved(fns), "ours", "hand")


def hmm_scan(x, K=5):
    from numpyro.contrib.control_flow import scan

    P = numpyro.sample("P", dist.Dirichlet(jnp.ones(K)).expand([K]).to_event(1))
    m = numpyro.sample("m", dist.Normal(0, 3).expand([K]).to_event(1))

    def step(before, y):
        z = numpyro.sample("z", dist.Categorical(P[before]))
        numpyro.sample("x", dist.Normal(m[z], 0.5), obs=y)
        return z, None

    scan(step, 0, x)


@partial(jax.jit, static_argnames="K")
def hmm_by_hand(key, P, m, x, K=5):
    log_p = jnp.log(P)
    unary = -0.5 * ((x[:, None] - m) / 0.5) ** 2

    def forward(alpha, u):
        after = logsumexp(alpha[:, None] + log_p, axis=0) + u
        after -= jnp.max(after)
        return after, alpha

    start = log_p[0] + unary[0]
    last, before = lax.scan(forward, start, unary[1:])
    k_last, k_rest = jax.random.split(key)
    z_last = draw(jax.random.uniform(k_last, ()), list(last))

    def backward(z, at):
        alpha, u = at
        z = draw(u, list(alpha + log_p[:, z]))
        return z, z

    _, path = lax.scan(backward, z_last, (before, jax.random.uniform(k_rest, (len(x) - 1,))), reverse=True)
    return jnp.append(path, z_last)


def run_hmm(T=10_000, K=5):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=T) + rng.choice(K, T), jnp.float32)
    c = gb.model(hmm_scan, x, K=K).conditional("z")
    assert c.kind == "chain"
    P = 0.8 * jnp.eye(K) + 0.2 / K
    state = {"P": P / P.sum(1, keepdims=True), "m": jnp.arange(K, dtype=jnp.float32)}
    key = jax.random.key(0)
    fns = {
        "ours": sweep_of(c, key, state),
        "hand": lambda: hmm_by_hand(key, state["P"], state["m"], x, K=K),
    }
    assert agree(fns)
    return report(f"HMM (scan), K={K}, T={T}, FFBS", interleaved(fns), "ours", "hand")


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["gmm", "lda", "hmm"]
    print("| model | generated, ms (min / median) | by hand, ms | ratio of minima | of medians |")
    print("|---|---|---|---|---|")
    for name in chosen:
        print({"gmm": run_gmm, "lda": run_lda, "hmm": run_hmm}[name](), flush=True)
