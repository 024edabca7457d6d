"""Trace a NumPyro model into a `Density`."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.current import generated_latents
from gibbsite.density.density import Density
from gibbsite.density.forward.agrees import doubted
from gibbsite.density.model.arguments import Arguments, known_arrays, split_arguments
from gibbsite.density.model.bounds import (
    bounds_inside,
    computed_bounds,
    ends_inside,
    with_known_supports,
)
from gibbsite.density.model.collect import (
    TRACER_ERRORS,
    ModelFacts,
    base_distribution,
    facts_of,
    integer_bounds,
    log_probs,
    parameters_of,
    run_model,
    support_indicators,
    weights_of,
)
from gibbsite.density.model.sites import Site
from gibbsite.density.model.tails import of_counts
from gibbsite.density.passes.pipeline import analysable
from gibbsite.density.passes.program import Program
from gibbsite.errors import DataError, GibbsiteError, ModelError
from gibbsite.explain.latent import picked_from_a_list, told_latent
from gibbsite.explain.spot import spot_of
from gibbsite.ground.lazy_import import later
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, wants_number
from gibbsite.programs.jaxpr.source_line import user_line_of_exception

inputs = later("gibbsite.inputs.live")
_DYNAMIC = (*TRACER_ERRORS, TypeError)
_ARRAY = re.compile(r"\bdata\[(\d+)\]")
# Nats by which log densities are off: one in a hundred of what is drawn by them may be another.
_FELT = 0.01
_INDEXED = re.compile(r"^(.*)\[(\d+)\]$")


def build_density(fn: Callable, args: tuple, kwargs: dict) -> Density:
    """Trace `fn(*args, **kwargs)`, a NumPyro model, into its sites and additive terms.

    Raises `ModelError` where the model's structure depends on a latent value or changes between traces;
    exceptions of the model itself pass through unchanged.
    """
    arguments = split_arguments(args, kwargs, parameters_of_function(fn))
    while True:
        try:
            facts = _facts(fn, arguments)
            closed, tree, again = _traced(fn, arguments, facts)
            break
        except (GibbsiteError, ValueError, *TRACER_ERRORS) as error:
            cause = _behind(error)
            if not (isinstance(cause, _DYNAMIC) or wants_number(cause) or _wants_numpy(cause)):
                raise
            # NumPy or Python may have met data, not a latent (`int(x.max())`): as given, they are concrete
            needed = _needed_values(fn, arguments, cause)
            if not needed and isinstance(error, TRACER_ERRORS):
                raise told_latent(spot_of(error)) from error
            if not needed:
                raise
            arguments = arguments.fixing(needed)
    _same_structure(facts, again)
    arrays = known_arrays(fn, {*facts.sites, *arguments.names})
    density = _assemble(closed, tree, facts, arguments, arrays)

    def in_deviances() -> Density:
        closed, tree, _ = _traced(fn, arguments, facts, counts=True)
        return _assemble(closed, tree, facts, arguments, arrays)

    if _rounded(density):
        density = replace(density, deviances=in_deviances)
    return _with_doubts(density, fn)


def _rounded(density: Density) -> bool:
    """Whether the usual form of the densities of counts, `k log m - m`, has a rounding in their sum that
    would be felt."""
    squares = 0.0
    for name, atom in density.outputs["observed"].items():
        if not of_counts(density.sites[name].fn_name) or density.maps.latents(atom):
            continue
        with jax.ensure_compile_time_eval():
            k = np.maximum(np.asarray(density.evaluator({}).full(atom), float), 1.0)
        squares += float(np.nansum(np.square(k * np.log(k))))
    return np.finfo(jnp.result_type(float)).eps * np.sqrt(squares) > _FELT


def _with_doubts(density: Density, fn: Callable) -> Density:
    """The density with the latents of the user's own classes looked at that would be drawn forward."""
    own = [n for n in density.latents if density.sites[n].own_class]
    forward = [n for n in own if n in generated_latents(density)]
    if not forward:
        return density
    args, kwargs = density.arguments.rebuild(density.arguments.arrays)
    with jax.ensure_compile_time_eval():  # a kernel's `init` may be traced, and the model with it
        found = doubted(fn, args, kwargs, forward)
    if not found:
        return density
    kept: dict[Any, Any] = {}
    notes_in(kept).extend(notes_in(density.cache))
    return replace(density, doubted=found, cache=kept)


def _needed_values(fn: Callable, arguments: Arguments, cause: BaseException) -> frozenset[int]:
    """Which arrays among the arguments the model wants as numbers while it is traced, as JAX names them in
    its error; all where it names none."""
    if _wants_numpy(cause):
        return frozenset(
            i for i, a in enumerate(arguments.arrays) if a.ndim == 2 and a.shape[0] == a.shape[1]
        )

    def run(data: Any) -> Any:
        given_args, given_kwargs = arguments.rebuild(data)
        run_model(fn, given_args, given_kwargs, {})
        return 0

    everything = frozenset(range(len(arguments.arrays)))
    arrays = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments.arrays]
    try:
        jax.eval_shape(run, arrays)
    except (GibbsiteError, IndexError, *_DYNAMIC) as error:
        cause = _behind(error)
        # of a slice JAX names no array, but bounds are whole numbers
        if isinstance(cause, IndexError) and wants_number(cause):
            return frozenset(i for i in everything if arguments.arrays[i].dtype.kind in "iu") or everything
        return frozenset(int(i) for i in _ARRAY.findall(str(cause))) & everything or everything
    return everything


def _behind(error: BaseException) -> BaseException:
    """What an error of this package tells of, or the error itself."""
    told = isinstance(error, GibbsiteError) and error.__cause__ is not None
    return error.__cause__ if told else error  # type: ignore[return-value]


def _wants_numpy(error: BaseException) -> bool:
    """Whether `numpyro.distributions.CAR(…, is_sparse=True)` was given its adjacency as an array of JAX."""
    return isinstance(error, ValueError) and "adj_matrix needs to be a numpy array" in str(error)


def _traced(fn: Callable, arguments: Arguments, facts: ModelFacts, counts: bool = False) -> Any:
    try:
        return _trace(fn, arguments, facts.sites, counts)
    except TRACER_ERRORS:
        raise
    except Exception:
        _same_structure(facts, _facts(fn, arguments))  # a model that changes fails anywhere; say so instead
        raise


def traced_again(fn: Callable, density: Density) -> Any:
    """The program of the model `fn` as JAX traces it now, with the arguments that `density` has; None where
    it cannot be traced any more."""
    try:
        return _trace(fn, density.arguments, density.sites, False)[0]
    except (GibbsiteError, ValueError, TypeError, LookupError, AttributeError, NameError, ArithmeticError):
        return None


def parameters_of_function(fn: Callable) -> list[str]:
    """The names of a function's parameters, in order; none where it does not tell."""
    try:
        return list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return []


def named_arguments(
    fn: Callable, args: tuple, kwargs: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Arguments by the names of the function's parameters."""
    names = parameters_of_function(fn)
    names += [f"argument {i}" for i in range(len(names), len(args))]
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def _facts(fn: Callable, arguments: Arguments) -> ModelFacts:
    """Sites and plates, found with abstract latents and concrete data."""
    found: list[ModelFacts] = []

    def run() -> Any:
        concrete_args, concrete_kwargs = arguments.rebuild(arguments.arrays)
        trace, lines = run_model(fn, concrete_args, concrete_kwargs, {})
        found.append(facts_of(trace, lines))
        return 0

    try:
        jax.eval_shape(run)
    except TRACER_ERRORS as error:
        raise told_latent(spot_of(error)) from error
    except IndexError as error:
        if wants_number(error):
            raise told_latent(spot_of(error)) from error
        raise
    except TypeError as error:
        if wants_number(error):
            raise told_latent(spot_of(error)) from error
        if "integer scalar arrays can be converted" in str(error):
            if (picked := picked_from_a_list(spot_of(error))) is not None:
                raise picked from error
            raise ModelError(
                f"one whole number is asked for{_where(error)}, and a float or an array is given: write "
                f"`int(…)` around it (a draw of Geometric is a float)"
            ).at(_place(error), "value-of-a-latent") from error
        if "not a valid JAX array type" in str(error):
            raise DataError(
                f"the model computes with something that holds no numbers{_where(error)}: {error}. Convert "
                f"it first, and keep what is missing out with `numpyro.handlers.mask`"
            ) from error
        raise
    except ValueError as error:
        if "setting an array element" in str(error):
            raise ModelError(
                f"a draw is put into an array of NumPy{_where(error)}, which holds numbers only. Make it an "
                f"array of JAX, and keep what the assignment gives: `a = jnp.zeros(…)`, `a = a.at[i].set(…)`"
            ).at(_place(error), "assignment-to-an-element") from error
        raise
    except AssertionError as error:
        if "size of plate" in str(error):
            raise DataError(
                f"a plate has no elements{_where(error)}; give it data, or leave the statement out. A size "
                f"that is drawn and may be 0 is written `K + 1`, or the plate under `if K:`"
            ).at(_place(error), "plates-and-data") from error
        raise
    return found[0]


def _where(error: BaseException) -> str:
    line = user_line_of_exception(error)
    return f" ({line})" if line else ""


def _place(error: BaseException) -> tuple[str, int] | None:
    spot = spot_of(error)
    return None if spot is None else (spot.file, spot.line)


def _trace(fn: Callable, arguments: Arguments, known: Mapping[str, Site], counts: bool) -> Any:
    values = {n: jax.ShapeDtypeStruct(s.shape, s.dtype) for n, s in known.items() if s.latent}
    arrays = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments.arrays]
    found: list[ModelFacts] = []

    def density(latents: dict[str, Any], data: list[Any]) -> dict[str, Any]:
        args, kwargs = arguments.rebuild(data)
        trace, lines = run_model(fn, args, kwargs, latents)
        found.append(facts_of(trace, lines))
        sites, samples = found[0].sites, {n: m for n, m in trace.items() if m["type"] == "sample"}
        discrete = {n for n, s in sites.items() if n in values and s.discrete}
        return {
            "log_prob": log_probs(trace, lines, counts),
            "inside": support_indicators(trace),
            "deterministic": {n: m["value"] for n, m in trace.items() if m["type"] == "deterministic"},
            "observed": {n: m["value"] for n, m in samples.items() if m["is_observed"] and n in sites},
            "bounds": {
                n: list(b)
                for n, m in samples.items()
                if n in discrete and (b := integer_bounds(m["fn"])) is not None
            },
            "discrete": {n: () for n, s in sites.items() if s.discrete},
            "supports": {
                n: b
                for n, m in samples.items()
                if n in sites and n not in discrete and (b := computed_bounds(m["fn"].support)) is not None
            },
            "ends": {
                n: ends_inside(b)
                for n, m in samples.items()
                if bounds_inside(b := base_distribution(m["fn"]))
            },
            "weights": {n: weights_of(m) for n, m in samples.items()},
            "parameters": {
                n: {name: p.value for name, p in parameters_of(m["fn"]).items()} for n, m in samples.items()
            },
        }

    closed, shapes = jax.make_jaxpr(density, return_shape=True)(dict(values), arrays)
    if inputs.live(
        fn, {str(i): v for i, v in enumerate(arguments.static)}
    ):  # arrays of the user's objects may be changed in place
        own = [c if isinstance(c, jax.Array) else np.array(c) for c in closed.consts]
        closed = ClosedJaxpr(closed.jaxpr, own)
    return closed, jax.tree.structure(shapes), found[0]


def changing(what: str, place: tuple[str, int] | None = None) -> ModelError:
    """The error of a model whose runs differ in `what`, at a file and line."""
    return ModelError(
        f"the model changes from one run to the next: {what}. A model must run the same statements every "
        f"time: take Python random numbers, counters and global state out of it"
    ).at(place, "statements-that-change")


def _same_structure(first: ModelFacts, second: ModelFacts) -> None:
    for name in [*first.sites, *second.sites]:
        a, b = first.sites.get(name), second.sites.get(name)
        what = None
        if a is None or b is None:
            what = f"site {name!r} is there in one run of the model and not in the next"
        elif (a.shape, a.role) != (b.shape, b.role):
            what = f"site {name!r} is {a.role} {a.shape} in one run and {b.role} {b.shape} in the next"
        if what:
            line = (a or b).line  # type: ignore[union-attr]
            at = f" (line {line[1]} of {line[0]})" if line else ""
            raise changing(what + at, line)


def _assemble(
    closed: Any, tree: Any, facts: ModelFacts, arguments: Arguments, user_arrays: dict[str, Any]
) -> Density:
    latents = sorted(n for n, s in facts.sites.items() if s.latent)  # dictionaries flatten in sorted order
    traced = Program(closed, {n: facts.sites[n].shape for n in latents}, tree)
    notes: list[str] = []
    program = analysable(traced, notes)
    density = Density(
        sites=facts.sites,
        plates=facts.plates,
        groups=_groups(facts),
        factor_names=facts.factors,
        decisions=facts.decisions,
        enumerated=facts.enumerated,
        parameter_event_dims=facts.parameter_event_dims,
        parameter_constraints=facts.parameter_constraints,
        transforms=facts.transforms,
        arguments=arguments,
        constants=user_arrays,
        traced=traced,
        **program.analysed(facts.sites, notes),
    )
    notes_in(density.cache).extend(notes)
    supports = density.outputs["supports"]
    if not supports:
        return density
    # a kernel's `init` may be traced, and the model with it: bounds are read off the data at once
    with jax.ensure_compile_time_eval():
        read = density.evaluator({}).full
        maps, sites = density.maps, facts.sites
        known = attempted(
            "supports that data bound",
            lambda: with_known_supports(sites, supports, lambda a: bool(maps.latents(a)), read),
            lambda: sites,
            notes_in(density.cache),
        )
    return replace(density, sites=known)


def _groups(facts: ModelFacts) -> dict[str, tuple[str, ...]]:
    """Indexed sites `s[0]`, …, `s[n-1]` of equal shape, by group name."""
    members: dict[str, dict[int, str]] = {}
    for name in facts.sites:
        match = _INDEXED.match(name)
        if match:
            members.setdefault(match.group(1), {})[int(match.group(2))] = name
    groups = {}
    for group, named in members.items():
        names = tuple(named[i] for i in sorted(named))
        alike = {(facts.sites[n].shape, facts.sites[n].role, facts.sites[n].dtype) for n in names}
        if sorted(named) == list(range(len(named))) and len(alike) == 1 and group not in facts.sites:
            groups[group] = names
    return groups
