"""What a checkpoint says beside its arrays, looked at before anything is done with it."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from gibbsite.errors import CheckpointError
from gibbsite.storage.store import GROUPS

_MOST = 2**62


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _none_or(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or test(value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _table(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(of, value.values()))


def _label(value: Any) -> bool:
    """A file's name: nothing that leads out of its folder."""
    return _text(value) and bool(value) and not set(value) & set("/\\\0") and value.strip(". ") != ""


def _move(value: Any) -> bool:
    """What became of a chain; of older versions, after how many steps and in words."""
    if isinstance(value, list):
        return len(value) == 2 and _count(value[0]) and _text(value[1])
    weight = value.get("log_weight") if isinstance(value, dict) else 0
    return (
        isinstance(value, dict)
        and set(value) == {"kind", "chain", "onto", "steps", "log_weight"}
        and _text(value["kind"])
        and all(type(value[n]) is int and -1 <= value[n] < _MOST for n in ("chain", "onto", "steps"))
        and (weight is None or (type(weight) is float and math.isfinite(weight)))
    )


def _pace(value: Any) -> bool:
    def pair(of: Callable[[Any], bool], v: Any) -> bool:
        return isinstance(v, list) and len(v) == 2 and all(map(of, v))

    return (
        isinstance(value, dict)
        and set(value) == {"steps", "seconds"}
        and pair(_count, value["steps"])
        and pair(_number, value["seconds"])
    )


def _group(value: Any) -> bool:
    if not isinstance(value, dict) or not _count(value.get("steps")):
        return False

    def blocks(v: Any) -> bool:
        if not isinstance(v, list) or len(v) != 2 or not _count(v[0]) or not v[0] or not _text(v[1]):
            return False
        return len(v[1]) == 8 * -(-value["steps"] // v[0]) and not set(v[1]) - set("0123456789abcdef")

    tests = {"names": _label, "sums": _text, "blocks": blocks}
    if not all(_table(test)(value.get(part)) for part, test in tests.items()):
        return False
    return set(value["names"]) == set(value["sums"]) == set(value["blocks"])


def _observed(value: Any) -> bool:
    def three(v: Any) -> bool:
        if not isinstance(v, list) or len(v) != 3 or not _text(v[0]) or not _text(v[1]) or not _count(v[2]):
            return False
        place = v[0].split("/")
        return len(place) == 2 and place[0] == "observed_data" and _label(place[1])

    return _table(three)(value)


_FACTS: dict[str, Callable[[Any], bool]] = {
    "settings": lambda v: isinstance(v, dict),
    "until": _none_or(_text),
    "max_draws": _none_or(_count),
    "live": lambda v: isinstance(v, bool),
    "elapsed": _number,
    "pace": _pace,
    "compile_seconds": _number,
    "finished": lambda v: isinstance(v, bool),
    "warming": lambda v: (
        isinstance(v, dict)
        and set(v) == {"length", "told", "moved"}
        and _count(v["length"])
        and _text(v["told"])
        and isinstance(v["moved"], list)
        and all(map(_move, v["moved"]))
    ),
    "versions": _table(_text),
    "about": _text,
    "observed": _observed,
    "draws": lambda v: isinstance(v, dict) and set(v) == set(GROUPS) and all(map(_group, v.values())),
}

# what a checkpoint may lack: it is taken up as if there were none
_MAY_LACK: dict[str, Callable[[Any], bool]] = {
    "starts": _text,
    "superchains": lambda v: isinstance(v, list) and all(map(_count, v)),
    "renamed": lambda v: (
        isinstance(v, list)
        and all(
            isinstance(n, list) and len(n) == 3 and _text(n[0]) and _text(n[1]) and _texts(n[2]) for n in v
        )
    ),
    "centring": _table(lambda v: isinstance(v, dict)),
    "aims": lambda v: isinstance(v, dict) and all(map(str.isdecimal, v)) and all(map(_number, v.values())),
    "derived": lambda v: isinstance(v, list),  # of what is in it, what makes no sense is left out, and told
}

_SETTINGS: dict[str, Callable[[Any], bool]] = {
    "draws": _count,
    "warmup": _count,
    "auto_warmup": lambda v: isinstance(v, bool),
    "chains": lambda v: _count(v) and v > 0,
    "seed": _count,
    "thin": lambda v: _count(v) and v > 0,
    "keep_warmup": lambda v: isinstance(v, bool),
    "chunk": _none_or(_count),
    "keep": _none_or(_texts),
    "shard": _none_or(_text),
    "first_chain": _count,
    "all_chains": _none_or(_count),
    "keep_probs": lambda v: isinstance(v, bool),
    "rescue": lambda v: isinstance(v, bool),
}


def checked_facts(facts: Mapping[str, Any], path: Any) -> dict[str, Any]:
    """The facts, if each is of its kind. Raises `CheckpointError`, which names the one that is not."""
    known = _FACTS | {k: test for k, test in _MAY_LACK.items() if k in facts}
    return _checked(facts, known, f"the saved run in {str(path)!r}", exact=False)


def checked_settings(settings: Mapping[str, Any], path: Any) -> dict[str, Any]:
    """Settings of a run, if each is of its kind and none is unknown. Raises `CheckpointError`."""
    known = {k: v for k, v in _SETTINGS.items() if k in settings} | {
        k: v for k, v in _SETTINGS.items() if k in ("draws", "warmup", "chains", "seed")
    }
    return _checked(settings, known, f"the saved settings in {str(path)!r}", exact=True)


def _checked(
    found: Mapping[str, Any], tests: Mapping[str, Callable[[Any], bool]], what: str, exact: bool
) -> dict[str, Any]:
    for name, test in tests.items():
        if name not in found or not test(found[name]):
            raise CheckpointError(f"{what} is damaged: {name!r} is {str(found.get(name))[:60]!r}")
    unknown = set(found) - set(tests)
    if exact and unknown:
        raise CheckpointError(
            f"{what} has settings that this version does not know: {', '.join(sorted(unknown))}"
        )
    return dict(found)
