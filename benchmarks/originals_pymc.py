"""Originals as PyMC models, run by nutpie or by PyMC itself: two sides of `originals_peers.py`.

Run by that script in an interpreter that has `pymc`, `nutpie` and `numba`: MODEL SIDE GIVEN DRAWN. Arguments
are read from the file GIVEN; draws go to DRAWN, and a line of JSON is printed: processor seconds with
compilers that were called, divergences. What is not written here prints null.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

CHAINS, STEPS = 4, 1000
Data = Mapping[str, np.ndarray]


def regression(d: Data) -> None:
    beta = pm.Flat("beta", shape=d["x"].shape[1])
    sigma = pm.HalfCauchy("sigma", float(d["scale"])) if "scale" in d else pm.HalfFlat("sigma")
    pm.Normal("y", d["x"] @ beta, sigma, observed=d["y"])


def blr(d: Data) -> None:
    beta, sigma = pm.Normal("beta", 0, 10, shape=d["x"].shape[1]), pm.HalfNormal("sigma", 10)
    pm.Normal("y", d["x"] @ beta, sigma, observed=d["y"])


def kilpisjarvi(d: Data) -> None:
    alpha = pm.Normal("alpha", float(d["mean_a"]), float(d["sd_a"]))
    beta = pm.Normal("beta", float(d["mean_b"]), float(d["sd_b"]))
    pm.Normal("y", alpha + beta * d["x"], pm.HalfFlat("sigma"), observed=d["y"])


def eight_schools(d: Data) -> None:
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    pm.Normal("y", pm.Normal("theta", mu, tau, shape=len(d["y"])), d["error"], observed=d["y"])


def _smooth(x: np.ndarray) -> Any:
    rho, alpha = pm.Gamma("rho", 25, 4), pm.HalfNormal("alpha", 2)
    return alpha**2 * pt.exp(-0.5 * ((x[:, None] - x[None, :]) / rho) ** 2)


def gp_regr(d: Data) -> None:
    n = len(d["x"])
    covariance = _smooth(d["x"]) + pm.HalfNormal("sigma", 1) * np.eye(n)
    pm.MvNormal("y", np.zeros(n), covariance, observed=d["y"])


def gp_pois_regr(d: Data) -> None:
    n = len(d["x"])
    factor = pt.linalg.cholesky(_smooth(d["x"]) + 1e-5 * np.eye(n))
    pm.Poisson("k", pt.exp(factor @ pm.Normal("f_tilde", 0, 1, shape=n)), observed=d["k"])


def arma11(d: Data) -> None:
    y = d["y"]
    mu, phi, theta = pm.Normal("mu", 0, 10), pm.Normal("phi", 0, 2), pm.Normal("theta", 0, 2)
    sigma, error = pm.HalfCauchy("sigma", 2.5), y[0] - (mu + phi * mu)
    # e[t] = u[t] - theta e[t - 1], as one triangular system
    n = len(y)
    u = pt.concatenate([error[None], y[1:] - (mu + phi * y[:-1])])
    errors = pt.linalg.solve_triangular(pt.eye(n) + theta * pt.eye(n, k=-1), u, lower=True)
    pm.Potential("errors", pm.logp(pm.Normal.dist(0, sigma), errors).sum())


def _deviation(name: str) -> Any:
    return pm.Gamma(name, 1e-3, 1e-3) ** -0.5


def rats(d: Data) -> None:
    x, y = d["x"], d["Y"]
    centre, slope = pm.Normal("alpha_c", 0, 100), pm.Normal("beta_c", 0, 100)
    alpha = pm.Normal("alpha", centre, _deviation("tau_alpha"), shape=len(y))
    beta = pm.Normal("beta", slope, _deviation("tau_beta"), shape=len(y))
    sigma = pm.Deterministic("sigma", _deviation("tau_c"))
    pm.Normal("Y", alpha[:, None] + beta[:, None] * (x - x.mean()), sigma, observed=y)
    pm.Deterministic("alpha0", centre - slope * x.mean())


def dyes(d: Data) -> None:
    theta, within, between = pm.Normal("theta", 0, 1e5), _deviation("tau_within"), _deviation("tau_between")
    mu = pm.Normal("mu", theta, between, shape=(len(d["y"]), 1))
    pm.Normal("y", mu, within, observed=d["y"])
    pm.Deterministic("f_within", within**2 / (within**2 + between**2))


def seeds(d: Data) -> None:
    x1, x2 = d["x1"], d["x2"]
    a, b, c, e = (pm.Normal(n, 0, 1000) for n in ("alpha0", "alpha1", "alpha2", "alpha12"))
    sigma = pm.Deterministic("sigma", _deviation("tau"))
    logits = a + b * x1 + c * x2 + e * x1 * x2 + pm.Normal("b", 0, sigma, shape=len(x1))
    pm.Binomial("r", d["n"], logit_p=logits, observed=d["r"])


def equiv(d: Data) -> None:
    k = np.array([1, 2])
    treat = d["group"][:, None] * (k - 1.5) + 1.5
    mu, phi, pi = (pm.Normal(n, 0, 1000) for n in ("mu", "phi", "pi"))
    deviations = pm.Deterministic("sigma", pm.Gamma("tau", 1e-3, 1e-3, shape=2) ** -0.5)
    person = pm.Normal("d", 0, deviations[1], shape=len(treat))
    mean = mu + (-1.0) ** (treat - 1) * phi / 2 + (-1.0) ** (k - 1) * pi / 2 + person[:, None]
    pm.Normal("Y", mean, deviations[0], observed=d["Y"])
    theta = pm.Deterministic("theta", pt.exp(phi))
    pm.Deterministic("equivalence", pt.ge(theta, 0.8) - 1.0 * pt.ge(theta, 1.2))


def beetles_logit(d: Data) -> None:
    x = d["x"]
    level, beta = pm.Normal("alpha_star", 0, 1000**0.5), pm.Normal("beta", 0, 1000**0.5)
    pm.Binomial("r", d["n"], logit_p=level + beta * (x - x.mean()), observed=d["r"])
    pm.Deterministic("alpha", level - beta * x.mean())


def leuk(d: Data) -> None:
    t, risk = d["t"], d["Y"] == 1
    beta = pm.Normal("beta", 0, 1000)
    jumps = pm.Gamma("dL0", 1e-4 * (t[1:] - t[:-1]), 1e-3, shape=len(t) - 1)
    rates = pt.exp(beta * d["Z"])[:, None] * jumps
    rows, columns = np.nonzero(risk)
    pm.Poisson("dN", rates[rows, columns], observed=d["dN"][risk])
    for name, sign in (("S_treat", -0.5), ("S_placebo", 0.5)):
        pm.Deterministic(name, pt.exp(-pt.cumsum(jumps) * pt.exp(sign * beta)))


def birats(d: Data) -> None:
    x, y = d["x"], d["Y"]
    centre = pm.Normal("mu_beta", 0, 1e5**0.5, shape=2)
    # Wishart(2, R) by Bartlett's factor: R has the rate, its inverse the scale
    scale = np.linalg.cholesky(np.linalg.inv(d["R"]))
    first, second = (pm.ChiSquared(n, k) for n, k in (("c1", 2), ("c2", 1)))
    lower = scale @ pt.stack([[first**0.5, 0.0], [pm.Normal("n21", 0, 1), second**0.5]])
    precision = lower @ lower.T
    covariance = pt.linalg.inv(precision)
    beta = pm.MvNormal("beta", centre, tau=precision, shape=(len(y), 2))
    tau = pm.Gamma("tau_c", 1e-3, 1e-3)
    pm.Normal("Y", beta[:, :1] + beta[:, 1:] * (x - x.mean()), tau**-0.5, observed=y)
    deviations = pm.Deterministic("sigma_beta", pt.sqrt(pt.diag(covariance)))
    pm.Deterministic("r", covariance[0, 1] / (deviations[0] * deviations[1]))
    pm.Deterministic("alpha0", centre[0] - centre[1] * x.mean())


MODELS: dict[str, Callable[[Data], None]] = {
    f.__name__: f
    for f in (
        regression, blr, kilpisjarvi, eight_schools, gp_regr, gp_pois_regr, arma11,
        rats, dyes, seeds, equiv, beetles_logit, leuk, birats,
    )
}  # fmt: skip


def _seconds() -> float:
    """Of processors, with those of compilers that were called."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def main() -> None:
    name, side, given, drawn = sys.argv[1:]
    if name not in MODELS:
        print("null")
        return
    warnings.simplefilter("ignore")
    began = _seconds()
    with pm.Model() as model:
        MODELS[name](dict(np.load(given)))
        if side == "PyMC":
            found = pm.sample(
                STEPS, tune=STEPS, chains=CHAINS, cores=1, random_seed=1, progressbar=False,
                compute_convergence_checks=False,
            )  # fmt: skip
            run = None
        else:
            import nutpie

            compiled, begun = nutpie.compile_pymc_model(model), _seconds()
            found = nutpie.sample(
                compiled, draws=STEPS, tune=STEPS, chains=CHAINS, cores=1, seed=1, progress_bar=False
            )
            run = _seconds() - begun
    whole = _seconds() - began
    np.savez(drawn, **{str(n): np.asarray(v) for n, v in found.posterior.items()})
    divergent = int(np.asarray(found.sample_stats["diverging"]).sum())
    print(json.dumps({"divergent": divergent, "run": run, "whole": whole}))


if __name__ == "__main__":
    main()
