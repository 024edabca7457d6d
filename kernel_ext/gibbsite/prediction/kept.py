"""What was found from a run's draws ⇄ plain facts and arrays, which a store holds and reads without executing
anything."""

import datetime
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gibbsite.errors import CheckpointError, OptionError
from gibbsite.ground.arguments import shown
from gibbsite.ground.lazy_import import later
from gibbsite.prediction.prediction import Facts, Prediction
from gibbsite.prediction.uses.checking import Checks, Statistic
from gibbsite.prediction.uses.comparing import Compared, Entry
from gibbsite.prediction.uses.contrasting import Contrast
from gibbsite.prediction.uses.deciding import Decision
from gibbsite.prediction.uses.effects import Effects
from gibbsite.sampling.derived.derived import given_name

nw, pd, xr, results = (
    later(name)
    for name in ("narwhals.stable.v1", "pandas", "xarray", "gibbsite.diagnostics.predictive.elpd_data")
)

# of what is no data class, its constructor's arguments by the attributes that they become
_MADE_OF: dict[type, dict[str, str]] = {
    Prediction: {
        "draws": "_draws",
        "probs": "_probs",
        "note": "note",
        "facts": "facts",
        "known": "known",
        "expected": "means",
    },
    Contrast: {n: n for n in ("a", "b", "site")},
    Effects: {n: n for n in ("name", "values", "predictions", "site", "amount")},
    Decision: {n: n for n in ("draws", "text", "source")},
    Compared: {n: n for n in ("entries", "observations", "caveats", "kind")},
}
_MADE_OF |= {c: {f.name: f.name for f in fields(c)} for c in (Facts, Checks, Statistic, Entry)}
_KINDS = {c.__name__: c for c in _MADE_OF}
_RESULTS = (Prediction, Contrast, Effects, Decision, Compared, Checks)
# of ArviZ's leave-one-out; its weights, a number for each draw of each datum, are not kept
_ELPD = ("kind elpd se mcse p n_samples n_data_points scale warning good_k elpd_i pareto_k n_folds "
         "summed integrated given labels factors doubtful refitted by data vectors").split()  # fmt: skip
# a `Facts.pairs` begins with the address of its run, which another process may have for another one
_HERE = uuid.uuid4().hex


def packed(value: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A result as facts that JSON knows, and arrays by name. Raises `OptionError` for what is none."""
    if not isinstance(value, _RESULTS) and not _is_elpd(value):
        raise OptionError(
            f"what is kept is a prediction, checks, a contrast, effects, a decision or a comparison, not "
            f"{shown(value)}"
        )
    arrays: dict[str, np.ndarray] = {}
    return _told(value, arrays), arrays


def unpacked(facts: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The inverse of `packed`. Raises `CheckpointError` for facts that are of nothing."""
    try:
        return _made(facts, arrays)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as problem:
        raise CheckpointError(f"a kept result is not as it was written: {problem!r}") from problem


def _is_elpd(value: Any) -> bool:
    return type(value).__name__ == "ELPDData"


def _told(v: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(v, np.generic):
        return v.item()
    if v is None or isinstance(v, bool | int | float | str):
        return v
    if isinstance(v, np.ndarray) and v.dtype.kind in "biufc":
        arrays[name := f"array {len(arrays)}"] = np.array(v, order="C")
        return {"array": name}
    if _is_elpd(v):
        return {"ELPDData": {n: _told(getattr(v, n, None), arrays) for n in _ELPD}}
    if type(v).__name__ == "DataArray":
        column: Any = v
        return {"by datum": [_told(column.values, arrays), [str(n) for n in column["datum"].values]]}
    if isinstance(v, Mapping):
        return {"map": [[_told(k, arrays), _told(x, arrays)] for k, x in v.items()]}
    if isinstance(v, Sequence | np.ndarray):
        return {"list": [_told(x, arrays) for x in v]}
    out = {n: getattr(v, a) for n, a in _MADE_OF[type(v)].items()}
    if isinstance(v, Facts):
        pairs = v.pairs
        if pairs is not None and not isinstance(pairs[0], str):
            pairs = (f"{_HERE} {pairs[0]}", *pairs[1:])
        out |= {"pairs": pairs}
    if "source" in out:
        out["source"] = _rows(out["source"])
    told = {n: _told(x, arrays) for n, x in out.items()}
    if isinstance(v, Prediction):
        told["derived"] = _told(v._derived.facts(), arrays)
    return {type(v).__name__: told}


def _made(told: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(told, dict):
        return told
    ((kind, inner),) = told.items()
    if kind == "array":
        return arrays[inner]
    if kind == "list":
        return tuple(_made(v, arrays) for v in inner)
    if kind == "map":
        return {_made(k, arrays): _made(v, arrays) for k, v in inner}
    if kind == "by datum":
        return xr.DataArray(_made(inner[0], arrays), dims="datum", coords={"datum": inner[1]})
    parts = {n: _made(v, arrays) for n, v in inner.items()}
    if kind == "ELPDData":
        own = {f.name for f in fields(results.ELPDData)}
        found = results.ELPDData(**{n: v for n, v in parts.items() if n in own})
        for n in parts.keys() - own:
            setattr(found, n, parts[n] if parts[n] is not None or n == "by" else ())
        return found
    if "source" in parts:
        parts["source"] = _table(parts["source"])
    derived = parts.pop("derived", ())
    like = _KINDS[kind]
    if not is_dataclass(like):  # these hold lists, where texts know sequences
        parts = {n: list(v) if isinstance(v, tuple) else v for n, v in parts.items()}
    made: Any = like(**parts)
    for name, text in derived:
        made.derive(text, name=given_name(name, text))
    return made


def _rows(source: Any) -> Any:
    """What a prediction's table of rows takes from the table that was given: its index, and its kind."""
    native = nw.from_native(source, pass_through=True, allow_series=True)
    if not isinstance(native, nw.DataFrame | nw.Series | nw.LazyFrame):
        return None
    index = getattr(source, "index", None)
    if not native.implementation.is_pandas() or index is None:
        return {"kind": native.implementation.value}
    return {"kind": "pandas", "index": [_plain(i) for i in index], "names": [_plain(n) for n in index.names]}


def _plain(label: Any) -> Any:
    """A row's label as JSON has it; of times their text."""
    if isinstance(label, tuple):
        return [_plain(i) for i in label]
    if isinstance(label, datetime.date):
        return {"time": label.isoformat()}
    return label if label is None or isinstance(label, bool | int | float | str) else str(label)


def _table(told: Any) -> Any:
    """A table without columns whose rows are those of `_rows`; None where there is none, or its package is
    not here."""
    if told is None:
        return None
    if told["kind"] != "pandas":
        try:
            return nw.from_dict({}, backend=told["kind"]).to_native()
        except ImportError:  # the same rows as a pandas table
            return None
    labels, names = told["index"], list(told["names"])
    if len(names) > 1:
        index = pd.MultiIndex.from_tuples([tuple(map(_label, row)) for row in labels], names=names)
    else:
        index = pd.Index([_label(i) for i in labels], name=names[0])
    return pd.DataFrame(index=index)


def _label(told: Any) -> Any:
    return pd.Timestamp(told["time"]) if isinstance(told, dict) else told
