"""Random models × what is done with a run of them, against sums and quadrature in double precision:
`python tests/fuzz/uses.py --combinations 10000`.

Kernels have their own oracles; here it is what stands around them: starts, scopes, conditions, masks,
weights, missing data, predictions, leave-one-out, what is derived, kept, stopped, saved and loaded. A model
has a number `mu`, perhaps a switch `g` of all data and labels `z` of each, so that every answer is a sum over
a grid; others have the body of one of `kinds.py`. Priors have one mode, two, or two that are far apart;
normal data come in several units and levels, numbers in single and in double precision. A combination is a
model with its data and one use that has an answer there. Models of one structure have as many rows, so that
they share their programs. One line per model of which an answer was not right, then a summary; exit status 1
where an answer was wrong and nothing said so, or an error was raised.
"""

import argparse
import collections
import itertools
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from kinds import KINDS, Kind
from numpyro import handlers
from scipy import special, stats

PRIORS = ("normal", "gamma", "two modes", "far modes")
LABELS = (0, 2, 3)
FAMILIES = ("normal", "poisson", "bernoulli")
CHANGES = (
    *("none", "mask", "weight", "weighted prior", "weighted labels", "scope", "missing mask"),
    *("missing impute", "factor", "condition g", "do g", "condition mu", "condition z", "eliminate"),
)
_MODES = {
    "two modes": ((0.4, -1.5, 0.3), (0.6, 1.5, 0.9)),
    "far modes": ((0.3, -6.0, 0.4), (0.7, 6.0, 1.0)),
}
"""Weight, mean and sd."""
_UNITS = ((0.0, 1.0), (0.0, 1e-6), (0.0, 1e6), (1e3, 1.0), (-1e5, 1e3), (0.5, 1e-3))
"""Level and unit of normal data."""
_DRAWS = 1000
_RARE = 0.01
_DOUBLE = 6
"""One structure in so many is in double precision."""
_FAR = 6.0
"""Standard errors, of which more than so many is no accident: one in 10⁸ of a right answer."""


@dataclass(frozen=True)
class Structure:
    """What a model is made of."""

    prior: str
    labels: int
    switch: bool
    family: str
    change: str
    double: bool = False

    @property
    def kind(self) -> Kind | None:
        """The rest of the model, where it is one of `KINDS`."""
        return KINDS.get(self.family)

    @property
    def sensible(self) -> bool:
        """Whether the change is one of this model."""
        if self.kind is not None:
            allowed = {"none", "weighted prior", "scope", "factor"}
            allowed |= {"mask"} if self.kind.masked else set()
            allowed |= {"missing mask", "missing impute"} if self.kind.each else set()
            allowed |= {"eliminate", "condition mu"} if self.kind.discrete else set()
            plain = not self.labels and not self.switch
            return plain and self.kind.positive == (self.prior == "gamma") and self.change in allowed
        if self.change in ("condition g", "do g"):
            return self.switch
        if self.change in ("condition z", "weighted labels"):
            return self.labels > 0
        if self.change in ("condition mu", "eliminate"):
            return self.switch or self.labels > 0
        return self.change != "missing impute" or self.family == "normal"


@dataclass(frozen=True)
class Numbers:
    """Data and what is fixed of a model, less `level` and in units of `unit`."""

    y: np.ndarray
    gap: float
    share: np.ndarray
    jump: float
    odds: float
    keep: np.ndarray
    weight: float
    given: float
    level: float = 0.0
    unit: float = 1.0

    def raw(self, x: Any, double: bool) -> np.ndarray:
        """As the model has it."""
        return (self.level + self.unit * np.asarray(x)).astype(np.float64 if double else np.float32)

    def less(self, x: Any) -> np.ndarray:
        """The way back, of what single precision holds of level and unit."""
        level, unit = (float(np.float32(v)) for v in (self.level, self.unit))
        return (np.asarray(x, float) - level) / unit


def numbers(of: Structure, rng: np.random.Generator, n: int = 5) -> Numbers:
    """Random data of `n` rows."""
    share = rng.dirichlet(np.full(max(of.labels, 1), 3.0))
    gap, jump, odds = rng.uniform(0.3, 4.0), rng.uniform(-2.0, 2.0), rng.uniform(0.15, 0.85)
    mu = abs(rng.normal(1.0, 0.7)) if of.prior == "gamma" else rng.normal(0, 1.5)
    if of.prior == "far modes":
        mu = rng.choice([-6.0, 6.0]) if of.family == "normal" else mu
    eta = mu + gap * rng.integers(0, max(of.labels, 1), n) + jump * (rng.random() < odds)
    if of.kind is not None:
        y = np.asarray(of.kind.drawn(rng, mu, n), float)
    elif of.family == "normal":
        y = eta + rng.normal(size=n)
    elif of.family == "poisson":
        y = rng.poisson(np.exp(np.clip(0.4 * eta, -2, 2.5))).astype(float)
    else:
        y = (rng.random(n) < special.expit(eta)).astype(float)
    keep = rng.random(n) < 0.7
    keep[0] = True
    keep[-1] = of.change not in ("mask", "missing mask", "missing impute")
    level, unit = _UNITS[rng.integers(len(_UNITS))] if of.family == "normal" else (0.0, 1.0)
    level = 0.0 if of.prior == "gamma" else level
    weight = rng.uniform(0.3, 2.5)
    have = Numbers(y, gap, share, jump, odds, keep, weight, float(mu), level, unit)
    return replace(have, y=have.less(have.raw(y, of.double)), given=float(have.less(have.raw(mu, of.double))))


# the model, by NumPyro


def _prior(of: Structure, level: Any, unit: Any) -> dist.Distribution:
    if of.prior == "normal":
        return dist.Normal(level + 0.5 * unit, 1.5 * unit)
    if of.prior == "gamma":
        return dist.Gamma(2.0, 1.5 / unit)
    weight, mean, sd = jnp.array(_MODES[of.prior]).T
    return dist.MixtureSameFamily(dist.Categorical(weight), dist.Normal(level + mean * unit, sd * unit))


def _likelihood(of: Structure, eta: Any, unit: Any) -> dist.Distribution:
    if of.family == "normal":
        return dist.Normal(eta, unit)
    return dist.Poisson(jnp.exp(0.4 * eta)) if of.family == "poisson" else dist.Bernoulli(logits=eta)


def written(of: Structure) -> Callable[..., Any]:
    """The NumPyro function."""

    def model(y, gap, share, jump, odds, keep, weight, level, unit):
        with handlers.scale(scale=weight if of.change == "weighted prior" else 1.0):
            mu = numpyro.sample("mu", _prior(of, level, unit))
        if of.change == "factor":
            numpyro.factor("f", -0.5 * ((mu - level) / unit - 1.0) ** 2)
        if of.kind is not None:
            masked = keep if of.change == "mask" else True
            return of.kind.body(mu, y, lambda: handlers.mask(mask=masked))
        g = numpyro.sample("g", dist.Bernoulli(odds)) if of.switch else 0.0
        with numpyro.plate("n", len(y)):
            with handlers.scale(scale=weight if of.change == "weighted labels" else 1.0):
                z = numpyro.sample("z", dist.Categorical(share)) if of.labels else 0.0
            eta = mu + unit * (gap * z + jump * g)
            masked = handlers.mask(mask=keep if of.change == "mask" else True)
            with masked, handlers.scale(scale=weight if of.change == "weight" else 1.0):
                numpyro.sample("y", _likelihood(of, eta, unit), obs=y)

    def scoped(*args, **kwargs):
        with handlers.scope(prefix="s", divider="_"):
            return model(*args, **kwargs)

    return scoped if of.change == "scope" else model


def made(of: Structure, have: Numbers, fn: Callable[..., Any] | None = None) -> gb.Model:
    """The model as somebody would make it."""
    y = have.raw(have.y, of.double)
    missing = of.change.removeprefix("missing ") if of.change.startswith("missing") else None
    if missing:
        y = np.where(have.keep, y, np.nan)
    elif of.kind.whole if of.kind is not None else of.family != "normal":
        y = y.astype(np.int32)
    fixed = (have.gap, have.share, have.jump, have.odds, have.keep, have.weight, have.level, have.unit)
    fixed = tuple(x if np.asarray(x).dtype == bool else np.float32(x) for x in fixed)
    options = {"missing": missing} if missing else {}
    model = gb.model(fn or written(of), y, *fixed, **options)
    if of.change == "condition g":
        return model.condition(g=1)
    if of.change == "do g":
        return model.do(g=1)
    if of.change == "condition mu":
        return model.condition(mu=have.raw(have.given, of.double))
    if of.change == "eliminate":
        return model.eliminate(*(n for n in ("g", "z") if n in model.density.latents))
    return model.condition(z=np.zeros(len(y), int)) if of.change == "condition z" else model


# the truth, by NumPy and SciPy


class Truth:
    """The posterior on a grid: `joint[mu, g]` with all labels summed out, `terms[i, mu, g, z]` of the data
    with their labels, `data[i]` where there is one."""

    def __init__(self, of: Structure, have: Numbers):
        self.of, self.have = of, have
        masked = of.change in ("mask", "missing mask", "missing impute")
        self.there = have.keep if masked else np.ones(len(have.y), bool)
        ends = {"normal": (-11.0, 12.0), "gamma": (1e-9, 22.0), "two modes": (-7.0, 9.0)}
        low, high = ends.get(of.prior, (-10.0, 13.0))
        grid = np.linspace(low, high, 6001)
        logp = self._prior(grid)
        if of.change == "weighted prior":
            logp = have.weight * logp
        if of.change == "factor":
            logp = logp - 0.5 * (grid - 1.0) ** 2
        if of.change == "condition mu":
            grid, logp = np.array([have.given]), np.zeros(1)
        self.grid = grid
        if of.kind is not None:
            self.prior = logp[:, None]
            self._weigh()
            return
        switch = np.log([1 - have.odds, have.odds]) if of.switch else np.zeros(1)
        if of.change in ("condition g", "do g"):
            switch = np.array([-np.inf, 0.0])
        share = np.log(have.share.astype(np.float32), dtype=float) if of.labels else np.zeros(1)
        if of.change == "weighted labels":
            share = have.weight * share
        if of.change == "condition z":  # what is fixed is no datum: nothing scores that z is 0
            share = np.where(np.arange(of.labels) == 0, 0.0, -np.inf)
        eta = grid[:, None, None] + have.jump * np.arange(len(switch))[:, None]
        self.eta = eta + have.gap * np.arange(len(share))
        power = have.weight if of.change == "weight" else 1.0
        pairs = zip(have.y, self.there, strict=True)
        like = np.stack([power * self._logpdf(y, self.eta) * on for y, on in pairs])
        self.terms = like + share
        self.prior = logp[:, None] + switch
        self.summed = special.logsumexp(self.terms, axis=3)
        self._weigh()

    def data(self, keep: np.ndarray) -> np.ndarray:
        """`log p(y[keep] | mu, g)`, labels and what else there is summed out."""
        if self.of.kind is not None:
            return self.of.kind.like(self.grid, self.have.y, keep)[:, None]
        return self.summed[keep].sum(0)

    def _weigh(self) -> None:
        joint = self.prior + self.data(self.there)
        self.joint = np.exp(joint - special.logsumexp(joint))

    def without_what_is_rare(self, mu: np.ndarray) -> None:
        """Leave out where no draw is, if that is less than one part in a hundred of the posterior: a mode of
        that weight may be missed by four chains, and no verdict can tell."""
        near = (self.grid > mu.min() - mu.std()) & (self.grid < mu.max() + mu.std())
        if self.joint[~near].sum() < _RARE:
            self.prior = np.where(near[:, None], self.prior, -np.inf)
            self._weigh()

    def _prior(self, x: np.ndarray) -> np.ndarray:
        if self.of.prior == "normal":
            return stats.norm.logpdf(x, 0.5, 1.5)
        if self.of.prior == "gamma":
            return stats.gamma.logpdf(x, 2.0, scale=1 / 1.5)
        parts = [np.log(w) + stats.norm.logpdf(x, m, s) for w, m, s in _MODES[self.of.prior]]
        return np.logaddexp(*parts)

    def _logpdf(self, y: float, eta: np.ndarray) -> np.ndarray:
        if self.of.family == "normal":
            return stats.norm.logpdf(y, eta, 1.0)
        if self.of.family == "poisson":
            return stats.poisson.logpmf(y, np.exp(0.4 * eta))
        return stats.bernoulli.logpmf(int(y), special.expit(eta))

    def mean(self, f: np.ndarray, joint: np.ndarray | None = None) -> float:
        """The expectation of a function of `mu` (an array `[mu]`) or of both."""
        joint = self.joint if joint is None else joint
        return float((joint * (f if f.ndim == 2 else f[:, None])).sum())

    def labels(self) -> np.ndarray:
        """`P(z_i = k)`, `[n, k]`."""
        given = np.exp(self.terms - self.summed[..., None])
        return np.einsum("mg,imgk->ik", self.joint, np.nan_to_num(given))

    def loo(self) -> float:
        """The sum over data of `log p(y_i | the others)`, in the units of the data."""
        total = -np.log(self.have.unit) * self.there.sum()
        whole = special.logsumexp(self.prior + self.data(self.there))
        for i in np.flatnonzero(self.there):
            others = self.there & (np.arange(len(self.there)) != i)
            total += whole - special.logsumexp(self.prior + self.data(others))
        return float(total)

    def predicted(self) -> np.ndarray:
        """The mean of a new `y_i`, given the posterior of its own label."""
        if self.of.kind is not None:
            return np.full(len(self.have.y), self.mean(self.of.kind.mean(self.grid)))
        mean = {"normal": self.eta, "poisson": np.exp(0.4 * self.eta), "bernoulli": special.expit(self.eta)}
        given = np.nan_to_num(np.exp(self.terms - self.summed[..., None]))
        return np.einsum("mg,imgk,mgk->i", self.joint, given, mean[self.of.family])


# what is done with a run


@dataclass
class Case:
    """One model with its data, its run and its truth."""

    of: Structure
    have: Numbers
    model: gb.Model
    run: Any
    truth: Truth

    def __post_init__(self) -> None:
        if self.of.change != "condition mu":
            self.truth.without_what_is_rare(self.draws("mu"))

    def name(self, site: str) -> str:
        """A site's name in the model."""
        return f"s_{site}" if self.of.change == "scope" else site

    def draws(self, site: str) -> np.ndarray:
        """Draws in double precision, of `mu` in units of the truth."""
        draws = np.asarray(self.run.draws[self.name(site)], float)
        return self.have.less(draws) if site == "mu" else draws


def apart(draws: np.ndarray, exact: float, what: str) -> str | None:
    """A sentence where the mean of draws `[chain, draw]` is too far from the exact one."""
    import arviz_stats

    sd = draws.std()
    if sd == 0:
        return (
            None
            if abs(draws.mean() - exact) < 0.02
            else f"{what} is {draws.mean():.3g} in all draws, exactly {exact:.4g}"
        )
    ess = float(arviz_stats.base.array_stats.ess(draws, chain_axis=0, draw_axis=1, method="mean"))
    error = sd / np.sqrt(max(min(ess, draws.size), 4.0))
    off = abs(draws.mean() - exact) - 1e-3 * sd
    return f"{what}: {draws.mean():.4g} ± {error:.2g}, exactly {exact:.4g}" if off > _FAR * error else None


NONE = "none"
"""Of a use that has no answer with a model."""


def first(*found: str | None) -> str | None:
    """The first that was found."""
    return next((f for f in found if f), None)


def unwarned(run: Any) -> bool:
    """Whether nothing is said against a run: converged, no site that was never at stake."""
    return run.verdict.ok and not run.verdict.notes


def posterior(case: Case) -> str | None:
    """Means, squares and probabilities of all latents."""
    t, found = case.truth, []
    if case.of.change != "condition mu":
        mu = case.draws("mu")
        found += [apart(mu, t.mean(t.grid), "mean of mu")]
        found += [apart((mu - t.mean(t.grid)) ** 2, t.mean((t.grid - t.mean(t.grid)) ** 2), "variance of mu")]
    if case.of.switch and case.of.change not in ("condition g", "do g"):
        found += [apart(case.draws("g"), float(t.joint[:, 1].sum()), "P(g)")]
    return first(*found)


def labels(case: Case) -> str | None:
    """Probabilities of labels, from their draws."""
    if not case.of.labels or case.of.change == "condition z":
        return NONE
    z, exact = case.draws("z"), case.truth.labels()
    pairs = itertools.product(range(z.shape[-1]), range(case.of.labels))
    return first(*(apart((z[..., i] == k).astype(float), exact[i, k], f"P(z[{i}] = {k})") for i, k in pairs))


def probabilities(case: Case) -> str | None:
    """`run.probs`, which are averages of exact ones."""
    if not case.of.labels or case.of.change == "condition z":
        return NONE
    found, exact = np.asarray(case.run.probs[case.name("z")], float), case.truth.labels()
    worst = np.abs(found - exact).max()
    return f"probabilities of labels are off by {worst:.3f}" if worst > 0.06 else None


def leave_one_out(case: Case) -> str | None:
    """`run.elpd()` against exact refits."""
    if case.of.change in ("weight", "weighted labels", "condition mu"):
        return NONE  # what a weighted datum scores is a convention; nothing is left to leave out
    if case.of.kind is not None and not case.of.kind.scored:
        return NONE
    found, exact, n = case.run.elpd(), case.truth.loo(), int(case.truth.there.sum())
    if found.warning or found.n_data_points != n:
        return None if found.n_data_points == n else f"elpd of {found.n_data_points} data, there are {n}"
    off, allowed = abs(float(found.elpd) - exact), 0.15 + 0.03 * n + 4 * found.mcse
    said = f"elpd {float(found.elpd):.3f} ± {found.mcse:.2f}, exactly {exact:.3f}"
    return said if off > allowed else None


def replicates(case: Case) -> str | None:
    """Posterior predictive means."""
    tree = case.run.to_datatree(posterior_predictive=True)["posterior_predictive"].to_dataset()
    extra = set(tree.data_vars) - {case.name("y")}
    if extra & {case.name(n) for n in ("mu", "g", "z")}:
        return f"posterior_predictive holds {sorted(map(str, extra))}"
    y = case.have.less(tree[case.name("y")].values)
    if case.of.change in ("missing mask", "missing impute", "mask"):
        return None if y.shape[2:] == case.have.y.shape else f"replicates are of shape {y.shape}"
    if case.of.kind is not None and case.of.kind.mean is None:
        return NONE
    exact = case.truth.predicted()
    return first(*(apart(y[..., i], exact[i], f"mean of new y[{i}]") for i in range(len(exact))))


def observed(case: Case) -> str | None:
    """What counts as data in the tree."""
    data = case.run.to_datatree()
    names = set(map(str, data["observed_data"].to_dataset().data_vars)) if "observed_data" in data else set()
    wrong = names - {case.name("y")}
    return f"observed_data holds {sorted(wrong)}" if wrong else None


def derived(case: Case) -> str | None:
    """A quantity of one's own."""
    if case.of.change == "condition mu":
        return NONE
    name = case.name("mu")
    case.run.derive(f"twice = 2 * {name} + 1")
    found = np.asarray(case.run.derived["twice"], float)
    same = np.allclose(found, 2 * np.asarray(case.run.draws[name], float) + 1, rtol=1e-5, atol=1e-5)
    return None if same else "a derived quantity is not what it says"


def marginal(case: Case) -> str | None:
    """The log density of `mu` with all discrete sites summed out, at three places."""
    discrete = [n for n in case.model.density.latents if case.model.sites[n].discrete]
    if not discrete or case.of.change in ("condition mu", "missing impute"):
        return NONE  # what is imputed is given to the marginal
    found = case.model.marginal(*discrete)
    raw = case.have.raw(np.quantile(case.draws("mu"), [0.1, 0.5, 0.9]), case.of.double)
    at = case.have.less(raw)
    state = {n: v[0, 0] for n, v in case.run.draws.items()}
    ours = [float(found.logdensity({**state, case.name("mu"): x})) for x in raw]
    total = case.truth.prior + case.truth.data(case.truth.there)
    exact = np.interp(at, case.truth.grid, special.logsumexp(total, axis=1))
    off = np.abs(np.diff(ours) - np.diff(exact)).max()
    return (
        f"differences of the marginal are off by {off:.3g}"
        if off > 0.02 + 1e-4 * np.abs(exact).max()
        else None
    )


def kept(case: Case) -> str | None:
    """Of sites that are not kept, means."""
    if not case.of.labels or case.of.change in ("condition z", "condition mu"):
        return NONE
    run = case.model.sample(draws=200, warmup=case.run.settings.warmup, seed=5, keep=case.name("mu"))
    whole = case.model.sample(draws=200, warmup=case.run.settings.warmup, seed=5)
    name = case.name("z")
    means = np.asarray(run.summaries[name].mean, float)
    exact = np.asarray(whole.draws[name], float).mean((0, 1))
    return None if np.allclose(means, exact, atol=1e-4) else f"mean of z that is not kept: {means}, {exact}"


def stopped(case: Case) -> str | None:
    """A run in two parts, and one that was saved and loaded."""
    options = {"seed": 3}
    whole = case.model.sample(draws=120, **options)
    part = case.model.sample(draws=50, **options)
    with tempfile.TemporaryDirectory() as folder:
        part.save(f"{folder}/run")
        part = gb.load(f"{folder}/run", model=case.model).resume(draws=70)
        part.wait()
    for name, draws in whole.draws.items():
        if not np.array_equal(draws, part.draws[name], equal_nan=True):
            return f"{name} is not the same after it was saved, loaded and resumed"
    return None


def started(case: Case) -> str | None:
    """Chains that are put somewhere are right from there, too, or say that they are not."""
    if case.of.change == "condition mu":
        return NONE
    at = [0.3, 0.9, 1.2, 2.0] if case.of.prior == "gamma" else [-1.6, -1.4, 1.3, 1.7]
    at = case.have.raw(np.multiply(at, 4 if case.of.prior == "far modes" else 1), case.of.double)
    run = case.model.sample(draws=_DRAWS, seed=2, init={case.name("mu"): at})
    again = Case(case.of, case.have, case.model, run, Truth(case.of, case.have))
    found = posterior(again)
    return found if found and unwarned(run) else None


def unrescued(case: Case) -> str | None:
    """The same without any chain moved."""
    run = case.model.sample(draws=_DRAWS, seed=4, rescue=False)
    again = Case(case.of, case.have, case.model, run, Truth(case.of, case.have))
    found = first(posterior(again), labels(again))
    return found if found and unwarned(run) else None


def foreseen(case: Case) -> str | None:
    """Prior predictive draws of `mu`."""
    if case.of.change in ("condition mu", "factor", "weighted prior", "weighted labels"):
        return NONE  # a weighted prior cannot be drawn from, and says so
    if case.of.kind is not None and case.of.kind.factored:
        return NONE
    found = case.model.predict(draws=2000, seed=1)
    if case.name("mu") not in found.draws:
        return f"prior draws of {sorted(found.draws)} alone"
    mu = case.have.less(found.draws[case.name("mu")])
    exact = {"normal": 0.5, "gamma": 2 / 1.5, "two modes": 0.3}.get(case.of.prior, 2.4)
    return apart(mu.reshape(1, -1), exact, "prior mean of mu")


USES = (
    *(posterior, labels, probabilities, leave_one_out, replicates, observed, derived, marginal),
    *(kept, stopped, started, unrescued, foreseen),
)


def cases(of: Structure, seed: int, data: int) -> list[dict[str, Any]]:
    """What came of each use of some models of one structure."""
    with jax.enable_x64(of.double):
        return _cases(of, seed, data)


def _cases(of: Structure, seed: int, data: int) -> list[dict[str, Any]]:
    fn, out, rows = written(of), [], int(np.random.default_rng(seed).integers(3, 8))
    for k in range(data):
        have = numbers(of, np.random.default_rng([seed, k]), rows)
        row: dict[str, Any] = {"structure": asdict(of), "seed": seed, "data": k, "uses": {}}
        try:
            model = made(of, have, fn)
            case = Case(of, have, model, model.sample(draws=_DRAWS, seed=seed + k), Truth(of, have))
        except Exception:
            row["uses"]["sample"] = f"error: {traceback.format_exc(limit=-3)}"
            out.append(row)
            continue
        trusted = unwarned(case.run)
        for use in USES:
            try:
                found = use(case)
            except Exception:
                found = f"error: {traceback.format_exc(limit=-3)}"
            if found == NONE:
                continue
            if found and not trusted and not found.startswith("error"):
                found = f"told: {found}"
            row["uses"][use.__name__] = found or "right"
        out.append(row)
    return out


def structures(rng: np.random.Generator) -> list[Structure]:
    """All of them, in random order."""
    families = (*FAMILIES, *KINDS)
    every = [Structure(*s) for s in itertools.product(PRIORS, LABELS, (False, True), families, CHANGES)]
    every = [s for s in every if s.sensible]
    mixed = [every[i] for i in rng.permutation(len(every))]
    return [replace(s, double=i % _DOUBLE == _DOUBLE - 1) for i, s in enumerate(mixed)]


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--combinations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=int, default=6, help="data sets of each structure")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="of the processor; nothing is begun after these"
    )
    asked = parser.parse_args(arguments)
    began, counts, done, wrong = time.process_time(), collections.Counter(), 0, []
    for number, of in enumerate(itertools.cycle(structures(np.random.default_rng(asked.seed)))):
        if done >= asked.combinations or time.process_time() - began > asked.seconds:
            break
        for row in cases(of, asked.seed + 1000 * number, asked.data):
            kinds = {u: str(f).split(":")[0].split(" ")[0] for u, f in row["uses"].items()}
            counts.update(k if k in ("right", "told", "error") else "wrong" for k in kinds.values())
            bad = {u: f for u, f in row["uses"].items() if f != "right"}
            done += len(row["uses"])
            if bad:
                wrong += [f for f in bad.values() if not f.startswith("told")]
                print(json.dumps({**row, "uses": bad}), flush=True)
        print(f"{number + 1} structures, {done} combinations: {dict(counts)}", file=sys.stderr, flush=True)
        if number % 50 == 49:
            jax.clear_caches()
    print(f"{done} combinations: {dict(counts)} in {time.process_time() - began:.0f} processor seconds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
