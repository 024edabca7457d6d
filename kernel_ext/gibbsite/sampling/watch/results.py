"""What was found from a run's draws, kept with it: in memory, and in the folder that the run is stored in.

Each result is a file of its own, of a checkpoint's form, so that predictions of many draws are written once;
`results/index.npz` names them, and what it does not name does not count.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import CheckpointError, UnknownNameError
from gibbsite.ground.services import ask
from gibbsite.storage import checkpoint
from gibbsite.storage.described import INDEX, RESULTS

_MOST_ANSWERS = 6  # to questions without a title, the latest of them
_MOST_BYTES = 2**26  # of an answer that nobody asked to be kept


@dataclass(frozen=True)
class Kept:
    """A result: under the `title` that somebody gave it, or as the answer to a `question` (a method and its
    arguments) of so many draws, `steps`; `file` is where it is, within its folder."""

    title: str
    question: Any
    steps: int
    file: str = ""


class Results(Mapping[str, Any]):
    """The results of a run by title: predictions, checks, comparisons and what else `Run.keep` takes."""

    def __init__(self, folder: Path | None = None):
        self._folder = folder
        self._kept: list[Kept] = []
        self._values: dict[int, Any] = {}  # by the identity of their entry
        if folder is not None and (folder / RESULTS / INDEX).exists():
            told = checkpoint.read(folder / RESULTS, INDEX)[0]["results"]
            try:
                self._kept = [Kept(**one) for one in told]
                if any(Path(one.file).name != one.file for one in self._kept):
                    raise ValueError("a result's file is of another folder")
            except (TypeError, ValueError) as problem:
                raise CheckpointError(f"the results in {str(folder)!r} are damaged: {problem}") from problem

    def __getitem__(self, title: str) -> Any:
        found = next((k for k in self._kept if k.title and k.title == title), None)
        if found is None:
            raise UnknownNameError("result", title, list(self))
        return self._value(found)

    def __iter__(self) -> Iterator[str]:
        return (k.title for k in self._kept if k.title)

    def __len__(self) -> int:
        return sum(bool(k.title) for k in self._kept)

    def __contains__(self, title: object) -> bool:  # without reading it
        return title in list(self)

    def __repr__(self) -> str:
        return f"<results: {', '.join(map(repr, self)) or 'none'}>"

    def _value(self, entry: Kept) -> Any:
        if id(entry) not in self._values:
            assert self._folder is not None
            facts, arrays = checkpoint.read(self._folder / RESULTS, entry.file)
            self._values[id(entry)] = ask("prediction").unpacked(facts["result"], arrays)
        return self._values[id(entry)]

    def keep(self, title: str, value: Any, steps: int) -> None:
        """Under a title; what had it before is dropped. Raises `OptionError` for what is no result."""
        ask("prediction").packed(value)
        self._add(Kept(title, None, steps), value, [k for k in self._kept if k.title == title])

    def answer(self, question: dict[str, Any], value: Any, steps: int) -> None:
        """The answer to a question, of the draws of now; those of fewer draws are dropped, and the oldest."""
        arrays = ask("prediction").packed(value)[1]
        if sum(a.nbytes for a in arrays.values()) > _MOST_BYTES:
            return
        others = [k for k in self._kept if not k.title]
        stale = [k for k in others if k.steps != steps or k.question == question]
        fresh = [k for k in others if k not in stale]
        self._add(Kept("", question, steps), value, stale + fresh[: max(0, len(fresh) + 1 - _MOST_ANSWERS)])

    def _add(self, entry: Kept, value: Any, instead_of: list[Kept]) -> None:
        self._drop(instead_of)
        self._kept.append(entry)
        self._values[id(entry)] = value

    def remove(self, title: str) -> None:
        """Drop the result of that title."""
        self._drop([k for k in self._kept if k.title == title])

    def _drop(self, gone: list[Kept]) -> None:
        self._kept = [k for k in self._kept if k not in gone]
        for entry in gone:
            self._values.pop(id(entry), None)

    def answered(self, question: dict[str, Any], steps: int, loosely: bool = False) -> Any:
        """What was answered to that question of so many draws; `loosely`, also an answer that holds more: a
        value that the question leaves open is any. None where there is nothing."""
        for entry in reversed(self._kept):
            known = entry.question
            if entry.title or entry.steps != steps or known is None or known["of"] != question["of"]:
                continue
            if known == question or (
                loosely and all(known.get(n) == v or v in (None, False, []) for n, v in question.items())
            ):
                return self._value(entry)
        return None

    def written(self, folder: Path, durable: bool = True) -> "Results":
        """The same results in `folder`: what is not there yet is written, then the index, then what it names
        no more is removed. Raises `OSError`."""
        there = folder / RESULTS
        if not self._kept and not there.exists():
            return self
        there.mkdir(exist_ok=True)
        out, own = Results(), folder == self._folder
        for entry in self._kept:
            new = entry
            if not (own and entry.file):
                told, arrays = ask("prediction").packed(self._value(entry))
                new = replace(entry, file=f"{uuid.uuid4().hex}.npz")
                checkpoint.write(
                    there, {"format": checkpoint.FORMAT, "result": told}, arrays, durable, new.file
                )
            out._kept.append(new)
            if id(entry) in self._values:
                out._values[id(new)] = self._values[id(entry)]
        facts = {"format": checkpoint.FORMAT, "results": [asdict(k) for k in out._kept]}
        checkpoint.write(there, facts, {}, durable, INDEX)
        for path in there.glob("*.npz"):
            if path.name not in (INDEX, *(k.file for k in out._kept)):
                path.unlink(missing_ok=True)
        out._folder = folder
        return out

    def damages(self) -> Iterator[str]:
        """Every file that is missing or not as it was written, one line each."""
        for entry in self._kept:
            try:
                self._value(entry)
            except CheckpointError as problem:
                yield str(problem)


def question_of(of: str, **arguments: Any) -> dict[str, Any]:
    """What was asked, as JSON has it: arrays by what they hold."""
    told = {n: _plain(v) for n, v in arguments.items()}
    return {"of": of, **told}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [_plain(v) for v in np.asarray(value, object).ravel().tolist()]
