"""ArviZ's result of cross-validation, which says beside its figures what they are of."""

from collections.abc import Mapping, Sequence
from typing import Any

import arviz_stats
import numpy as np

from gibbsite.diagnostics.predictive.caveats import as_one_text, factors_text, given_text

_WARNED = "\nThere has been a warning during the calculation. Please check the results."


class ELPDData(arviz_stats.ELPDData):
    """`summed` and `integrated` are latents that are gone from the likelihood, `given` those that are not
    though a datum drew them, `labels` the discrete ones of these; `factors` are `numpyro.factor` statements
    that read what data are drawn from, `computed` sites whose `obs=` is computed from latents; `doubtful` are
    refits that did not converge; `bounding` are data that alone keep latents where they are, whose k is
    infinite; `vectors` are sites that are one datum of several numbers each, by name how many; `data` are the
    values that are left out, how many each datum has, and its weight."""

    summed: Sequence[str] = ()
    integrated: Sequence[str] = ()
    given: Sequence[str] = ()
    labels: Sequence[str] = ()
    factors: Sequence[str] = ()
    computed: Sequence[str] = ()
    doubtful: Sequence[str] = ()
    bounding: Sequence[str] = ()
    vectors: Mapping[str, int] = {}
    data: tuple[Any, Any, Any] | None = None

    def __str__(self) -> str:
        with np.errstate(invalid="ignore"):  # shares of no k, where none can be estimated
            plain = super().__str__().rstrip()
        if np.isnan(self.p):  # of groups left out together no number of parameters is counted
            plain = "\n".join(row for row in plain.splitlines() if not row.startswith("p_"))
        if self.n_data_points == 1:
            plain = plain.replace("1 observations", "1 observation")
        notes = self._notes()
        if notes:  # they say what ArviZ warns of
            plain = plain.replace(_WARNED, "")
        return "\n".join([plain, *notes])

    def _notes(self) -> list[str]:
        found = [
            f"{', '.join(names)} {how}"
            for names, how in ((self.summed, "summed out"), (self.integrated, "integrated out"))
            if names
        ]
        found += [as_one_text(name, count) for name, count in (self.vectors or {}).items()]
        if told := given_text(self):
            part = "in part " * bool({*self.given} & {*self.summed, *self.integrated})
            found.append(
                f"{part}given {told}, drawn with the very data that are left out: it may be too high; "
                "elpd(kfold=10) leaves them out in earnest"
            )
        if self.bounding:
            more = ", …" * (len(self.bounding) > 3)
            found.append(
                f"{', '.join(self.bounding[:3])}{more}: without it latents reach further than any draw does; "
                "elpd(refit=True) leaves it out in earnest"
            )
        elif self.pareto_k is not None and (bad := int((np.asarray(self.pareto_k) > self.good_k).sum())):
            found.append(
                f"{bad} Pareto k above {self.good_k:.2f}: elpd(refit=True) leaves those data out in earnest"
            )
        if self.doubtful:
            more = f"; {len(self.doubtful) - 3} more: see .doubtful" * (len(self.doubtful) > 3)
            found.append(f"not to be relied on: {'; '.join(self.doubtful[:3])}{more}")
        weights = np.asarray(self.data[2] if self.data else 1.0)
        if not np.allclose(weights, 1.0):
            low, high = weights.min(), weights.max()
            span = f"{low:.3g}" if np.isclose(low, high) else f"{low:.3g} to {high:.3g}"
            found.append(f"data count by their weights ({span}), as in the density (`handlers.scale`)")
        if self.factors:
            found.append(factors_text(self.factors, "counted"))
        if self.computed:
            found.append(
                f"{', '.join(self.computed)} not counted: what is observed there is computed from latents; "
                'give the data themselves, and NaN where they lack with missing="impute"'
            )
        if self.pareto_k is not None and (lost := int(np.isnan(self.pareto_k.values).sum())):
            found.append(f"{lost} Pareto k cannot be estimated: too few different likelihoods")
        return found
