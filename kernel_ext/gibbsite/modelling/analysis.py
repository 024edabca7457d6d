"""A NumPyro function and its arguments → all that is known of them before anything is run.

Arguments become arrays, gaps in the data are dealt with, the density is traced, and what cannot be meant is
refused: in this order, since each asks for what stands before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gibbsite.density import Density, build_density
from gibbsite.density.build import named_arguments
from gibbsite.density.handlers.params import with_constants
from gibbsite.density.liveness import check_proper
from gibbsite.density.model.alone import as_columns, handlers_alone
from gibbsite.density.model.collect import LooseParam
from gibbsite.density.model.names import printed, spelt_notes
from gibbsite.errors import ModelError
from gibbsite.explain.calls import check_arguments
from gibbsite.ground import arguments as sensible
from gibbsite.ground.lazy_import import later
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.inputs.compared import with_columns
from gibbsite.inputs.tables import Known, Labels, as_arrays, order_notes, plate_labels
from gibbsite.modelling.forgotten import check_forgotten, unused
from gibbsite.modelling.missing import checked_way, kept_padding, without_missing
from gibbsite.validation.check import counted_notes, impossible_values
from gibbsite.validation.covariates import check_categories, check_order, unit_notes
from gibbsite.validation.data import check_missing
from gibbsite.validation.indices import negative_notes, open_notes
from gibbsite.validation.masked import check_masked, partly_masked_notes
from gibbsite.validation.meeting import check_meeting, number_notes, step_notes

unrepeatable = later("gibbsite.validation.unrepeatable")
texts = later("gibbsite.validation.texts")


@dataclass(frozen=True, eq=False)
class Bound:
    """A model function and its arguments as arrays; `known` holds labels and units of what was given."""

    fn: Callable
    args: tuple
    kwargs: Mapping[str, Any]
    name: str
    known: Known


def bound(fn: Callable, args: tuple, kwargs: Mapping[str, Any] | None, name: str | None) -> Bound:
    """Bind a function to what people give. Raises `DataError` for what cannot be an array."""
    known = Known()
    arrays = tuple(as_arrays(v, n, known) for n, v in named_arguments(fn, args).items())
    named = {n: as_arrays(v, n, known) for n, v in (kwargs or {}).items()}
    known.labels = {n: tuple(map(printed, labels)) for n, labels in known.labels.items()}
    return Bound(fn, arrays, named, name or getattr(fn, "__name__", "model"), known)


@dataclass(frozen=True, eq=False)
class Analysis(Bound):
    """A model function, its arguments, and its density.

    `missing`: which elements of which observed sites were missing, `imputed` those of them that are drawn;
    `notes` are sentences on what merely hurts, `doubts` those of them by which the posterior may be that of
    another model than was meant: verdicts of its runs tell them, too. `checked` says whether values that
    cannot be were looked for.
    """

    density: Density
    missing: Mapping[str, np.ndarray]
    imputed: Mapping[str, np.ndarray]
    notes: tuple[str, ...]
    doubts: tuple[str, ...]
    checked: bool

    @cached_property
    def plate_labels(self) -> Labels:
        """Labels of the elements of plates, where the data have some."""
        unread = {*self.density.arguments.names} - self.density.read_names - self.known.naming
        labels = {n: t for n, t in self.known.labels.items() if n not in unread}
        return plate_labels({n: plate.size for n, plate in self.density.plates.items()}, labels)

    def element_labels(self, site: str) -> list[tuple[str, ...] | None]:
        """Per axis of a site the labels of its elements, None where they have none."""
        one = self.density.site(site)
        plates = dict(zip(one.plate_axes, one.plates, strict=True))
        return [self.plate_labels.get(plates.get(axis, "")) for axis in range(len(one.shape))]

    def imputed_labels(self) -> Labels:
        """Labels of imputed elements, those of their places in the data, by dimension."""
        found: Labels = {}
        for name, gone in self.imputed.items():
            # events that are missing as a whole are drawn as a whole: a label each
            events = len(self.density.site(f"{name}_missing").shape) - 1
            lost = gone.any(axis=tuple(range(gone.ndim - events, gone.ndim)))
            labels = self.element_labels(name)[: lost.ndim]
            if any(labels):
                found[f"{name}_missing_dim_0"] = tuple(
                    ", ".join(_labelled(at, labels, str)) for at in np.argwhere(lost).tolist()
                )
        return found

    def labelled(self, site: str, index: Sequence[int]) -> list[Any]:
        """An element's index, with labels where there are some."""
        return _labelled(index, self.element_labels(site), lambda k: k)


def _labelled(index: Sequence[int], labels: Sequence[Any], plain: Callable[[Any], Any]) -> list[Any]:
    return [plain(k) if m is None else m[k] for k, m in zip(index, labels, strict=True)]


def analysed(
    fn: Callable,
    args: tuple = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    check_values: bool = True,
    missing: str | None = None,
) -> Analysis:
    """Look a model through; arguments as for `gibbsite.model`, and its errors."""
    handlers_alone.refuse_others()
    checked = sensible.flag("check_values", check_values)
    given = bound(fn, args, kwargs, name)
    args, named, called, known = given.args, dict(given.kwargs), given.name, given.known
    check_arguments(fn, called, args, named)
    fn = with_columns(fn, known, as_columns)
    gone: Mapping[str, np.ndarray] = {}
    if (missing := checked_way(missing)) is not None:
        fn, args, named, gone = without_missing(fn, args, named, missing, known)
    before = unrepeatable.random_state()
    sampled, density = _traced(fn, called, args, named)
    failed = notes_in(density.cache)

    def looked(what: str, look: Callable[[], Any]) -> tuple[str, ...]:
        return tuple(attempted(what, look, tuple, failed) or ())

    looked("spheres", lambda: unrepeatable.check_spheres(density))
    looked("unread arguments", lambda: check_forgotten(fn, called, density, args, named))
    looked("missing values", lambda: check_missing(density))
    looked("masked values", lambda: check_masked(density, gone if missing == "mask" else {}))
    looked("improper densities", lambda: check_proper(density))
    looked("categories", lambda: check_categories(density, known.labels))
    looked("the order of categories", lambda: check_order(density, known.labels, known.alphabetical))
    looked("columns that meet", lambda: check_meeting(density, known.labels, known.units))
    unread = looked("unread arguments", lambda: unused(called, sampled))
    doubts = (*unread, *looked("data that count several times", lambda: counted_notes(density, meant=True)))
    notes = [
        *looked("the order of data", lambda: order_notes(known)),
        *looked("units", lambda: unit_notes(density, known.units)),
        *looked("names", lambda: spelt_notes(density.sites)),
        *looked("indices", lambda: (*negative_notes(density), *open_notes(density))),
        *looked("numbers of categories", lambda: number_notes(density, known.labels)),
        *looked("texts of categories", lambda: texts.text_notes(density, known.labels)),
        *looked("two texts", lambda: texts.two_way_notes(density, known.labels, known.alphabetical)),
        *looked("the order of steps", lambda: step_notes(density, known.labels, known.alphabetical)),
        *looked("masked events", lambda: partly_masked_notes(density, gone if missing == "mask" else {})),
        *unread,
        *looked("random numbers", lambda: unrepeatable.other_each_time(before, fn, args, named)),
        *looked("random draws", lambda: unrepeatable.drawn_within(density)),
        *(
            f"{n} is not drawn forward, but by its log density: its draws do not follow that ({why})"
            for n, why in density.doubted.items()
        ),
    ]
    if checked:
        notes += looked(
            "impossible values", lambda: impossible_values(sampled, density, known.labels, known.alphabetical)
        )
    imputed = gone if missing == "impute" else {}
    return Analysis(
        sampled, args, named, called, known, density, gone, imputed, tuple(notes), doubts, checked
    )


def _traced(fn: Callable, name: str, args: tuple, kwargs: dict[str, Any]) -> tuple[Callable, Density]:
    """The function in the form that is sampled, and its density: `param`s that nothing reads are constants,
    and padding keeps its prior."""
    try:
        density = build_density(fn, args, kwargs)
    except LooseParam:
        fn = with_constants(fn, args, kwargs)
        density = build_density(fn, args, kwargs)
    if not density.sites:
        raise ModelError(
            f"model {name!r} has no `sample` statement that runs, so there is nothing to infer; functions "
            f"that are defined in it sample only where they are called"
        )
    if not density.latents:
        raise ModelError(
            f"model {name!r} has no latent sites: every `sample` statement is observed, so there is "
            f"nothing to infer. Leave at least one site without `obs=` (or with a value of None)"
        )
    failed = notes_in(density.cache)
    padded = attempted("padding", lambda: kept_padding(fn, density), lambda: None, failed)
    return (fn, density) if padded is None else (padded, build_density(padded, args, kwargs))
