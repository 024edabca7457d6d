"""Models of posteriordb in NumPyro, from their mathematics: by the name of the Stan program, a function
from its data to the model and its arguments. Flat priors are improper ones, as Stan has them."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

Data = Mapping[str, Any]
Made = tuple[Callable[..., Any], dict[str, Any]]


def flat(k: int) -> Any:
    """A flat prior of k numbers."""
    return dist.ImproperUniform(constraints.real, (), (k,))


def regression(x: Any, y: Any, scale: float | None) -> None:
    """y ~ Normal(X beta, sigma), flat, or with a half-Cauchy prior of sigma."""
    beta = numpyro.sample("beta", flat(x.shape[1]))
    wide = dist.ImproperUniform(constraints.positive, (), ()) if scale is None else dist.HalfCauchy(scale)
    sigma = numpyro.sample("sigma", wide)
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def _regression(columns: Callable[[Any], list[Any]], outcome: Callable[[Any], Any], scale: Any = None) -> Any:
    def made(data: Data) -> Made:
        d = {n: np.asarray(v, float) for n, v in data.items()}
        y = outcome(d)
        x = np.column_stack([np.broadcast_to(c, y.shape) for c in [1.0, *columns(d)]])
        return regression, {"x": x.astype(np.float32), "y": y.astype(np.float32), "scale": scale}

    return made


def _sd(x: Any) -> Any:
    return np.std(x, ddof=1)


def _z(x: Any, times: float = 1.0) -> Any:
    return (x - x.mean()) / (times * _sd(x))


def eight_schools(y: Any, error: Any) -> None:
    """Centred, with a half-Cauchy prior."""
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(theta, error), obs=y)


def _covariance(x: Any, alpha: Any, rho: Any, more: Any) -> Any:
    apart = (x[:, None] - x[None, :]) / rho
    return alpha**2 * jnp.exp(-0.5 * apart**2) + more * jnp.eye(len(x))


def gp_regr(x: Any, y: Any) -> None:
    """A Gaussian process with noise."""
    rho, alpha = numpyro.sample("rho", dist.Gamma(25, 4)), numpyro.sample("alpha", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("y", dist.MultivariateNormal(0.0, _covariance(x, alpha, rho, sigma)), obs=y)


def gp_pois_regr(x: Any, k: Any) -> None:
    """A latent Gaussian process of the log rates."""
    rho, alpha = numpyro.sample("rho", dist.Gamma(25, 4)), numpyro.sample("alpha", dist.HalfNormal(2))
    white = numpyro.sample("f_tilde", dist.Normal(0, 1).expand([len(x)]).to_event(1))
    factor = jnp.linalg.cholesky(_covariance(x, alpha, rho, 1e-5))
    numpyro.sample("k", dist.Poisson(jnp.exp(factor @ white)), obs=k)


def kilpisjarvi(x: Any, y: Any, mean_a: float, sd_a: float, mean_b: float, sd_b: float) -> None:
    """A line through temperatures."""
    alpha = numpyro.sample("alpha", dist.Normal(mean_a, sd_a))
    beta = numpyro.sample("beta", dist.Normal(mean_b, sd_b))
    sigma = numpyro.sample("sigma", dist.ImproperUniform(constraints.positive, (), ()))
    numpyro.sample("y", dist.Normal(alpha + beta * x, sigma), obs=y)


def arma11(y: Any) -> None:
    """ARMA(1, 1): errors one after another."""
    mu, phi = numpyro.sample("mu", dist.Normal(0, 10)), numpyro.sample("phi", dist.Normal(0, 2))
    theta, sigma = numpyro.sample("theta", dist.Normal(0, 2)), numpyro.sample("sigma", dist.HalfCauchy(2.5))

    def step(error: Any, pair: Any) -> Any:
        before, now = pair
        error = now - (mu + phi * before + theta * error)
        return error, error

    first = y[0] - (mu + phi * mu)
    _, errors = jax.lax.scan(step, first, (y[:-1], y[1:]))
    numpyro.factor("errors", dist.Normal(0, sigma).log_prob(jnp.concatenate([first[None], errors])).sum())


def blr(x: Any, y: Any) -> None:
    """A regression with proper priors."""
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def _log(name: str) -> Callable[[Any], Any]:
    return lambda d: np.log(d[name])


def _named(fn: Callable[..., Any], **names: str) -> Callable[[Data], Made]:
    def made(data: Data) -> Made:
        arrays = {n: np.asarray(data[source]) for n, source in names.items()}
        return fn, {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in arrays.items()}

    return made


def _mesquite(*columns: Callable[[Any], Any]) -> Any:
    return _regression(lambda d: [c(d) for c in columns], _log("weight"))


def _volume(d: Any) -> Any:
    return np.log(d["diam1"] * d["diam2"] * d["canopy_height"])


def _area(d: Any) -> Any:
    return np.log(d["diam1"] * d["diam2"])


def _shape(d: Any) -> Any:
    return np.log(d["diam1"] / d["diam2"])


def _ages(d: Any) -> list[Any]:
    return [d["age_discrete"] == k for k in (2, 3, 4)]


def _score(d: Any) -> Any:
    return d["kid_score"]


_inches, _work = (lambda d: [d["height"]]), (lambda d: [d["mom_work"] == k for k in (2, 3, 4)])
MODELS: dict[str, Callable[[Data], Made]] = {
    "earn_height": _regression(_inches, lambda d: d["earn"]),
    "log10earn_height": _regression(_inches, lambda d: np.log10(d["earn"])),
    "logearn_height": _regression(_inches, _log("earn")),
    "logearn_interaction": _regression(
        lambda d: [d["height"], d["male"], d["height"] * d["male"]], _log("earn")
    ),
    "logearn_interaction_z": _regression(
        lambda d: [_z(d["height"]), d["male"], _z(d["height"]) * d["male"]], _log("earn")
    ),
    "logearn_logheight_male": _regression(lambda d: [np.log(d["height"]), d["male"]], _log("earn")),
    "kidscore_interaction": _regression(
        lambda d: [d["mom_hs"], d["mom_iq"], d["mom_hs"] * d["mom_iq"]], _score, 2.5
    ),
    "kidscore_momhs": _regression(lambda d: [d["mom_hs"]], _score, 2.5),
    "kidscore_momhsiq": _regression(lambda d: [d["mom_hs"], d["mom_iq"]], _score, 2.5),
    "kidscore_momiq": _regression(lambda d: [d["mom_iq"]], _score, 2.5),
    "kidscore_interaction_c": _regression(
        lambda d: [
            a := d["mom_hs"] - d["mom_hs"].mean(),
            b := d["mom_iq"] - d["mom_iq"].mean(),
            a * b,
        ],
        _score,
    ),
    "kidscore_interaction_c2": _regression(
        lambda d: [a := d["mom_hs"] - 0.5, b := d["mom_iq"] - 100, a * b], _score
    ),
    "kidscore_interaction_z": _regression(
        lambda d: [a := _z(d["mom_hs"], 2), b := _z(d["mom_iq"], 2), a * b], _score
    ),
    "kidscore_mom_work": _regression(_work, _score),
    "mesquite": _regression(
        lambda d: [d[n] for n in ("diam1", "diam2", "canopy_height", "total_height", "density", "group")],
        lambda d: d["weight"],
    ),
    "logmesquite": _mesquite(
        *(_log(n) for n in ("diam1", "diam2", "canopy_height", "total_height", "density")),
        lambda d: d["group"],
    ),
    "logmesquite_logvolume": _mesquite(_volume),
    "logmesquite_logva": _mesquite(_volume, _area, lambda d: d["group"]),
    "logmesquite_logvas": _mesquite(
        _volume, _area, _shape, _log("total_height"), _log("density"), lambda d: d["group"]
    ),
    "nes": _regression(
        lambda d: [
            *(d[n] for n in ("real_ideo", "race_adj")),
            *_ages(d),
            *(d[n] for n in ("educ1", "gender", "income")),
        ],
        lambda d: d["partyid7"],
    ),
    "blr": _named(blr, x="X", y="y"),
    "eight_schools_centered": _named(eight_schools, y="y", error="sigma"),
    "gp_regr": _named(gp_regr, x="x", y="y"),
    "gp_pois_regr": _named(gp_pois_regr, x="x", k="k"),
    "arma11": _named(arma11, y="y"),
    "kilpisjarvi": _named(
        kilpisjarvi, x="x", y="y", mean_a="pmualpha", sd_a="psalpha", mean_b="pmubeta", sd_b="psbeta"
    ),
}
