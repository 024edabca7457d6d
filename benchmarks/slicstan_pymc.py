"""SlicStan's models with PyMC-extras' `marginalize`: the other side of `elimination.py --slicstan`.

Run by that script in an interpreter that has `pymc` and `pymc-extras`; prints a line of JSON for each model:
seconds to compile, microseconds per gradient, lowest ESS and seconds of warm-up and draws, all of the
processor. One chain; what cannot be marginalised tells the kind of error.
"""

import json
import sys
import time
from collections.abc import Callable

import arviz as az
import numpy as np
import pymc as pm
import pymc_extras as pmx
from pymc.blocking import DictToArrayBijection

P = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
SHARES = np.array([0.5, 0.3, 0.2])
SPREADS = np.array([0.5, 4.0])


def _first(row: np.ndarray) -> object:
    return pm.Categorical.dist(p=row)


def hmm1(y: np.ndarray) -> list[str]:
    mu = pm.Normal("mu", 0, 1, shape=3)
    z = pmx.DiscreteMarkovChain("z", P=P, init_dist=_first(P[0]), steps=len(y) - 1)
    pm.Normal("y", mu[z], 1, observed=y)
    return ["z"]


def hmm2(y: np.ndarray) -> list[str]:
    mu = pm.Normal("mu", 0, 1, shape=3)
    pairs = P[np.maximum(np.arange(3)[:, None], np.arange(3)[None])]
    first = pm.Categorical.dist(p=P[0], shape=(2,))
    z = pmx.DiscreteMarkovChain("z", P=pairs, init_dist=first, n_lags=2, steps=len(y) - 2)
    pm.Normal("y", mu[z], 1, observed=y)
    return ["z"]


def factorial(y: np.ndarray) -> list[str]:
    mu = pm.Normal("mu", 0, 1, shape=9)
    z, h = (pmx.DiscreteMarkovChain(n, P=P, init_dist=_first(P[0]), steps=len(y) - 1) for n in "zh")
    pm.Normal("y", mu[z * h], 1, observed=y)
    return ["z", "h"]


def soft_kmeans(y: np.ndarray) -> list[str]:
    mu = pm.Normal("mu", 0, 1, shape=(3, y.shape[1]))
    z = pm.Categorical("z", SHARES, shape=len(y))
    pm.Normal("y", mu[z], 1, observed=y)
    return ["z"]


def outliers(y: np.ndarray) -> list[str]:
    x = np.linspace(-1, 1, len(y))
    alpha, beta, raw = pm.Normal("alpha", 0, 10), pm.Normal("beta", 0, 10), pm.Normal("raw", 0, 1, shape=2)
    z = pm.Bernoulli("z", logit_p=raw[0] - raw[1], shape=len(y))
    pm.Normal("y", alpha * x + beta, pm.math.switch(z, SPREADS[1], SPREADS[0]), observed=y)
    return ["z"]


MODELS: dict[str, Callable[[np.ndarray], list[str]]] = {
    f.__name__: f for f in (hmm1, hmm2, factorial, soft_kmeans, outliers)
}


def measured(name: str, y: np.ndarray, warmup: int, draws: int) -> dict[str, float]:
    began = time.process_time()
    with pm.Model() as model:
        gone = MODELS[name](y)
    with pmx.marginalize(model, gone):
        step = pm.NUTS()
        compiled = time.process_time() - began
        gradient = step._logp_dlogp_func
        gradient.set_extra_values({})
        at = DictToArrayBijection.map(pm.modelcontext(None).initial_point())
        times = []
        for _ in range(5):
            start = time.process_time()
            for _ in range(200):
                gradient(at)
            times.append((time.process_time() - start) / 200)
        ticks: list[float] = []
        found = pm.sample(
            draws,
            tune=warmup,
            chains=1,
            cores=1,
            step=step,
            random_seed=0,
            progressbar=False,
            compute_convergence_checks=False,
            callback=lambda trace, draw: ticks.append(time.process_time()),
        )
    ess = min(float(v.min()) for v in az.ess(found).data_vars.values())
    return {"compile": compiled, "gradient": 1e6 * min(times), "ess": ess, "seconds": ticks[-1] - ticks[0]}


def main() -> None:
    asked = json.loads(sys.stdin.read())
    for name, y in asked["data"].items():
        try:
            found = measured(name, np.array(y), asked["warmup"], asked["draws"])
        except Exception as problem:  # what it does not take is part of the table
            found = {"refused": type(problem).__name__, "why": str(problem)[:300]}
        print(json.dumps({"model": name, **found}), flush=True)


if __name__ == "__main__":
    main()
