"""Two models of the same data: which predicts better, and by how much beyond chance."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.diagnostics.predictive.caveats import given_text
from gibbsite.diagnostics.verdict.elpd import difference
from gibbsite.errors import GibbsiteError
from gibbsite.storage.checkpoint import data_hash

SMALL = 4.0
"""Below this, a difference of elpd is small, and its standard error is not to be relied on (Sivula,
Magnusson, Matamoros and Vehtari 2025, "Uncertainty in Bayesian leave-one-out cross-validation based model
comparison")."""
_CLEAR = 2.0  # standard errors, beyond which a model is called the better


@dataclass(frozen=True)
class Row:
    """One measure of both runs; `better` is 1 where the second is better, -1 where the first is, else 0."""

    name: str
    first: float
    second: float
    better: int


@dataclass(frozen=True)
class Predictions:
    """`difference` is the second's elpd less the first's, with its standard error `se` over the data,
    paired; NaN where the two cannot be compared, for the `reason` given. `notes` tell what is doubtful."""

    names: tuple[str, str]
    difference: float
    se: float
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def better(self) -> int:
        """1 where the second predicts clearly better, -1 where the first does, else 0."""
        size = abs(self.difference)
        return int(np.sign(self.difference)) if size > SMALL and size > _CLEAR * self.se else 0

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        apart = "; the models differ, so that their estimates need not agree"
        found = f"elpd differs by {self.difference:.1f} ± {self.se:.1f} (second less first)"
        if self.better:
            found += f": {self.names[self.better > 0]} predicts better"
        elif abs(self.difference) <= SMALL:
            found += f": less than {SMALL:.0f}, which is small"
        else:
            found += f": less than {_CLEAR:.0f} standard errors, which chance may be"
        return "".join([found, apart, *(f". {note}" for note in self.notes)])


def same_posterior(first: Any, second: Any) -> bool:
    """Whether two runs should draw from one posterior: their models are one in other coordinates or under
    other schedules, or have one program and the same data. Without their models, the programs decide."""
    a, b = first.model, second.model
    if a is None or b is None:
        return first.fingerprint.partition("-")[0] == second.fingerprint.partition("-")[0]
    if a.posterior is b.posterior:
        return True
    return a.execution.fingerprint == b.execution.fingerprint and data_hash(first.plan) == data_hash(
        second.plan
    )


def predictions(first: Any, second: Any) -> Predictions:
    """What two runs of different models say of the same data, left out one by one."""
    names = (first.model_name, second.model_name)
    names = names if all(names) and names[0] != names[1] else ("the first", "the second")
    nan = float("nan")
    try:
        a, b = first.elpd(), second.elpd()
    except GibbsiteError as problem:
        return Predictions(names, nan, nan, (), reason=f"the models differ, and {_lower(problem)}")
    if (other := other_data(first, second)) is not None:
        rows = (Row("elpd (LOO)", float(a.elpd), float(b.elpd), 0),)
        told = f"they predict different data ({other}), so that neither predictions nor estimates compare"
        return Predictions(names, nan, nan, rows, reason=told)
    apart, se = difference(a, b)
    notes = [f"{name} is given {given_text(e)}, which flatters it" for name, e in
             zip(names, (a, b), strict=True) if e.given]  # fmt: skip
    notes += [
        f"Importance ratios of {name} are not reliable (Pareto k above {e.good_k:.2f})"
        for name, e in zip(names, (a, b), strict=True)
        if bool((np.asarray(e.pareto_k) > e.good_k).any())
    ]
    found = Predictions(names, apart, se, (), tuple(notes))
    rows = (Row("elpd (LOO)", float(a.elpd), float(b.elpd), found.better),)
    return Predictions(names, apart, se, rows, tuple(notes))


def _lower(problem: GibbsiteError) -> str:
    words = str(problem)
    return words[:1].lower() + words[1:]


def other_data(first: Any, second: Any) -> str | None:
    """How the data of two runs differ, in words; None where they are the same, whatever their sites are
    called."""
    (a, of_a, weight_a), (b, of_b, weight_b) = (run.elpd().data for run in (first, second))
    if len(of_a) != len(of_b):
        return f"{len(of_a)} and {len(of_b)} of them"
    if not np.array_equal(of_a, of_b):
        return "they are vectors of other lengths"
    which = np.repeat(np.arange(len(of_a)), of_a)
    off = np.unique(which[~np.isclose(a, b, rtol=1e-6, atol=0)])
    if len(off):
        same = len(a) == len(b) and np.allclose(np.sort(np.ravel(a)), np.sort(np.ravel(b)), rtol=1e-6, atol=0)
        order = ", the same ones in another order: sort the rows alike" if same else ""
        return f"{len(off)} of {len(of_a)} have other values{order}"
    weighed = int((~np.isclose(weight_a, weight_b, rtol=1e-6)).sum())
    return f"{weighed} of {len(of_a)} have other weights" if weighed else None
