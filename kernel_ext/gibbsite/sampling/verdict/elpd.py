"""How well a run's posterior predicts what it has not seen: by ArviZ."""

import warnings
from typing import Any

import numpy as np
from xarray import Dataset, DataTree

from gibbsite.errors import ModelError

_NAME = "all"


def elpd_of(run: Any) -> Any:
    """ArviZ's leave-one-out cross-validation over all elements of all observed sites together.

    Raises `ModelError` for a run without draws, without observed sites, or without its model.
    """
    from arviz_stats.loo.loo import loo

    missing = (
        "its model" if run.model is None else "observed sites" if not run.plan.observed else
        "draws" if not run.kept.sampled.steps else ""
    )  # fmt: skip
    if missing:
        raise ModelError(f"the run of {run.model_name!r} lacks {missing}: nothing can be predicted by it")
    tree = run.to_datatree(log_likelihood=True)
    arrays = (np.asarray(v.values) for v in tree["log_likelihood"].to_dataset().values())
    flat = np.concatenate([a.reshape(*a.shape[:2], -1) for a in arrays], axis=2)
    tree["log_likelihood"] = DataTree(Dataset({_NAME: (("chain", "draw", "datum"), flat)}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the result says it, too
        return loo(tree, var_name=_NAME)
