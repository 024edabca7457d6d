"""Two small analyses of real data, for people who want to see Gibbsite work before they read about it."""

# NumPyro types a sample as `ArrayLike`, which a plain number is too; scikit-learn's data sets are untyped.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIndexIssue=false, reportOptionalSubscript=false

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from gibbsite.errors import MissingPackageError


@dataclass(frozen=True)
class Demo:
    """A model function, its arguments, and how long to run it."""

    fn: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]
    draws: int
    warmup: int


def mixture(x: Any, K: int = 2) -> None:
    """`K` kinds of tumour, told apart by measures of their cells, `x[tumour, measure]`, standardised.

    Kinds are numbered by size: each measure's means are in order. Without an order every relabelling would be
    as probable, and chains would disagree about names.
    """
    measures = x.shape[1]
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    ordered = dist.transforms.OrderedTransform()
    means = dist.TransformedDistribution(dist.Normal(0, 1).expand([measures, K]).to_event(1), ordered)
    mu = numpyro.sample("mu", means.to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1).expand([measures, K]).to_event(2))
    with numpyro.plate("tumour", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu.T[z], sigma.T[z]).to_event(1), obs=x)


def changepoint(flow: Any) -> None:
    """Yearly flow of the Nile (in 10⁸ m³): one level for the first `tau` years, another for the rest."""
    years = len(flow)
    tau = numpyro.sample("tau", dist.DiscreteUniform(0, years - 1))
    level = numpyro.sample("level", dist.Normal(900, 300).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(200))
    mean = jnp.where(jnp.arange(years) < tau, level[0], level[1])
    with numpyro.plate("year", years):
        numpyro.sample("flow", dist.Normal(mean, sigma), obs=flow)


@contextmanager
def _needs(package: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        message = f"this demo's data come with {package}: pip install 'gibbsite[demos]'"
        raise MissingPackageError(message) from error


def tumours() -> dict[str, Any]:
    """Three measures of the cells of 569 breast tumours, on a log scale, standardised: float32 `[569, 3]`.

    They are the largest radius, texture and depth of concavities among the cells of each (Street, Wolberg and
    Mangasarian, 1993).
    """
    with _needs("scikit-learn"):
        from sklearn.datasets import load_breast_cancer
    data = load_breast_cancer()
    names = list(data.feature_names)
    columns = [names.index(f"worst {measure}") for measure in ("radius", "texture", "concave points")]
    logs = np.log(data.data[:, columns] + 0.01)  # some tumours have no concave points
    return {"x": ((logs - logs.mean(axis=0)) / logs.std(axis=0)).astype(np.float32)}


def nile_flow() -> dict[str, Any]:
    """Yearly flow of the Nile at Aswan, 1871 to 1970, float32 `[100]`."""
    with _needs("statsmodels"):
        from statsmodels.datasets import nile
    return {"flow": nile.load_pandas().data["volume"].to_numpy(np.float32)}


DEMOS: Mapping[str, Demo] = {
    "mixture": Demo(mixture, tumours, draws=1000, warmup=500),
    "changepoint": Demo(changepoint, nile_flow, draws=2000, warmup=500),
}
