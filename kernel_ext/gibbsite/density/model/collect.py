"""Run a NumPyro model under handlers: its sites as facts, and its density as one function of values.

Latents and data are inputs, so the jaxpr of that function is sized by the program and not by the data.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions import Distribution, TransformedDistribution, constraints
from numpyro.primitives import Messenger

from gibbsite.density.handlers.scopes import GIVEN, ScopedScans
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.atoms import check_atoms, is_own, listed, part_by_part, whole_total
from gibbsite.density.model.bounds import bounds_inside, support_indicator
from gibbsite.density.model.names import check_apart, checked_name
from gibbsite.density.model.sites import Plate, Site
from gibbsite.density.model.tails import held_in_tails
from gibbsite.errors import DataError, GibbsiteError, ModelError, Question
from gibbsite.explain.calls import check_numbers
from gibbsite.explain.explained import explained, placed
from gibbsite.explain.shapes import told_crossed, told_data_shapes, told_misfit
from gibbsite.explain.spot import spot_of
from gibbsite.ground.lazy_import import later
from gibbsite.programs.jaxpr.compat import duplicated, of_no_argument, tracing, wants_number
from gibbsite.programs.jaxpr.source_line import calling_line, user_line_of_exception

asking = later("gibbsite.inputs.asks")

TRACER_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def wants_value(error: BaseException) -> bool:
    """Whether Python wanted the value of something traced: JAX tells of it in several ways."""
    return isinstance(error, (*TRACER_ERRORS, Question)) or wants_number(error)


class LooseParam(ModelError):
    """A model has a `numpyro.param` that nothing fixes."""

    @classmethod
    def of(cls, name: str) -> "LooseParam":
        """The error of the one of that name."""
        return cls(
            f"{name!r} is a `numpyro.param` that the density reads: MCMC has no values for it, it is for "
            f"optimisation. Use a prior instead (`numpyro.sample`), or fix it: "
            f"`numpyro.handlers.substitute(model, data={{{name!r}: …}})`"
        )


FIXED = "_gibbsite_fixed"
"""Of the message of a `numpyro.param`: whether a substitution gives its value."""


class _Lines(Messenger):
    """Notes the user's source line of every site."""

    def __init__(self, fn: Any = None) -> None:
        self.lines: dict[str, tuple[str, int]] = {}
        self.plates: dict[str, int] = {}
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "param":  # the handlers of the model's own have been asked by now
            msg[FIXED] = msg["value"] is not None
        if msg["type"] == "plate":
            self.plates[msg["name"]] = msg["args"][0]
        if msg["type"] not in ("sample", "deterministic") or msg.get("name") in self.lines:
            return
        line = calling_line()
        if line is not None:
            self.lines[msg["name"]] = line


class _Checked(Messenger):
    """Refuses what is no number before anything is drawn from it, and statements within functions that JAX
    transforms; the model's innermost handler."""

    def __enter__(self) -> Any:
        self._tracing = tracing()
        return super().__enter__()

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample":
            return
        if tracing() != self._tracing:
            raise ModelError(
                f"{msg['name']!r} is sampled within a function that JAX transforms (jit, vmap, lax.scan, "
                f"lax.fori_loop, lax.cond, grad): it is run once there, whatever becomes of it, so that one "
                f"draw would stand for all. Use numpyro.contrib.control_flow.scan or cond for loops and "
                f"branches, a plate for copies, and no jit: runs are compiled as a whole"
            ).at(calling_line(), "transformed-by-jax")
        check_numbers(msg, calling_line)


def base_distribution(fn: Any) -> Any:
    """The distribution inside `Independent`, `MaskedDistribution` and `ExpandedDistribution` wrappers."""
    while hasattr(fn, "base_dist") and type(fn).__name__ in (
        "Independent",
        "MaskedDistribution",
        "ExpandedDistribution",
    ):
        fn = fn.base_dist
    return fn


def is_factor(fn: Any) -> bool:
    """Whether a statement's distribution is that of `numpyro.factor`, which a plate or `mask` may wrap."""
    return type(base_distribution(fn)).__name__ == "Unit"


def innermost(fn: Any) -> tuple[Any, tuple[str, ...]]:
    """The distribution that the values are first drawn from, and the transforms they then go through.

    A transformed distribution with parameters of its own (`LogNormal`) stands for itself.
    """
    fn, transforms = base_distribution(fn), []
    while isinstance(fn, TransformedDistribution) and not fn.arg_constraints:
        transforms[:0] = [type(t).__name__.removesuffix("Transform") for t in fn.transforms]
        fn = base_distribution(fn.base_dist)
    return fn, tuple(transforms)


# Where distributions made of distributions keep their parts, and how many axes these have in front of their
# own: `MixtureSameFamily` has its components side by side.
_PARTS = (
    ("_mixing_distribution", 0),
    ("_component_distribution", 1),
    ("_component_distributions", 0),
    ("base_dist", 0),
)


class Parameter(NamedTuple):
    """A parameter of a distribution: of its `value` the last `event_dim` axes belong to one element, which
    should meet the NumPyro `constraint`."""

    value: Any
    event_dim: int
    constraint: Any


def parameters_of(fn: Any) -> dict[str, Parameter]:
    """Parameters of a distribution by name.

    Those of a mixture's or a truncated distribution's parts are called `0 Normal/loc`: place and family of
    the part, then the name.
    """
    base, _ = innermost(fn)
    out: dict[str, Parameter] = {}
    for attribute, axes in () if isinstance(base, TransformedDistribution) else _PARTS:
        found = base.__dict__.get(attribute)
        for part in found if isinstance(found, list | tuple) else [found]:
            if part is not None:
                inner, place = innermost(part)[0], len({k.split(" ")[0] for k in out})
                if set(inner.arg_constraints) <= set(base.arg_constraints):
                    continue  # `ZeroInflatedPoisson` has the parameters of its part itself
                axes_here = axes + max(len(part.event_shape) - len(inner.event_shape), 0)  # of `to_event`
                out |= {
                    f"{place} {type(inner).__name__}/{name}": p._replace(event_dim=p.event_dim + axes_here)
                    for name, p in parameters_of(inner).items()
                }
    inner = base.__dict__.get("base_dist")
    named = set(base.arg_constraints or {})
    handed_on = isinstance(base, TransformedDistribution) and named and not named & set(base.__dict__)
    if handed_on and named <= set(getattr(inner, "arg_constraints", {})):
        return parameters_of(inner)  # `InverseWishart` has the parameters of its Cholesky factor
    for name, constraint in (base.arg_constraints or {}).items():
        value = base.__dict__.get(name)
        if value is None and name in _required(type(base)):
            value = getattr(base, name, None)  # `BetaProportion` computes its mean
        if value is not None and not hasattr(value, "tocsr"):  # `CAR` keeps a matrix of SciPy
            out[name] = Parameter(value, event_dim_of(constraint, base), constraint)
    return out


@functools.cache
def _required(family: type) -> frozenset[str]:
    """The arguments that a distribution cannot do without."""
    found = inspect.signature(family).parameters.values()
    return frozenset(p.name for p in found if p.default is inspect.Parameter.empty)


def feasible(msg: Mapping[str, Any]) -> Any:
    """A value in the support of a latent site, found without drawing it."""
    if msg["type"] != "sample" or msg.get("is_observed") or msg["value"] is not None:
        return None
    fn = msg["fn"]
    shape = tuple(msg["kwargs"].get("sample_shape", ())) + fn.shape()
    if fn.support.is_discrete:
        more, drawable = tuple(msg["kwargs"].get("sample_shape", ())), part_by_part(fn, whole_total)
        struct = jax.eval_shape(lambda: drawable.sample(jax.random.key(0), more))
        return jnp.zeros(struct.shape, struct.dtype)
    try:
        # bounds that are whole numbers (`Pareto(1, 1.5)`) make a whole number, and would make the site one
        return fn.support.feasible_like(jnp.zeros(shape)).astype(jnp.result_type(float))
    except NotImplementedError:  # a support of the user's own need not name a feasible value
        return fn.sample(jax.random.key(0))


_ENTERS: ContextVar[Any] = ContextVar("enters", default=None)
"""What enters every value that is found for a latent, where a pass looks for what is computed of draws."""


def _found(msg: Mapping[str, Any]) -> Any:
    value, enters = feasible(msg), _ENTERS.get()
    return value if value is None or enters is None else jnp.where(enters, value, value)


def is_drawn(fn: Callable, args: tuple, kwargs: dict) -> bool:
    """Whether a draw is in the value that Python wants where a pass over the model ends; JAX's error says of
    what it is computed."""

    def run(enters: Any) -> int:
        token = _ENTERS.set(enters)
        try:
            run_model(fn, args, kwargs, {})
        finally:
            _ENTERS.reset(token)
        return 0

    try:
        jax.eval_shape(run, jax.ShapeDtypeStruct((), bool))
    except TRACER_ERRORS as error:
        return not of_no_argument(error)
    except Exception:  # explained, by what stands behind it
        return True
    return True


@dataclass(frozen=True)
class ModelFacts:
    """What one pass over the model found: sites and plates in program order.

    `enumerated` holds the support of each discrete latent site that can list it, shape `(K, …)`;
    `parameter_event_dims` how many trailing axes of a distribution's parameters belong to one element,
    `parameter_constraints` what each has to meet; `transforms` the base of each transformed distribution and
    its transforms, the last applied last; `decisions` are the factors that hold what Python decided by.
    """

    sites: dict[str, Site]
    plates: dict[str, Plate]
    factors: tuple[str, ...]
    enumerated: dict[str, np.ndarray]
    parameter_event_dims: dict[str, dict[str, int]]
    parameter_constraints: dict[str, dict[str, Any]]
    transforms: dict[str, tuple[str, ...]]
    decisions: frozenset[str]


SEED = 1_937_203_541
"""Of the key that NumPyro has when a model is traced: what is drawn by it is of no statement's own."""


def run_model(fn: Callable, args: tuple, kwargs: dict, values: Mapping[str, Any]) -> tuple[dict, dict]:
    """The NumPyro trace of the model at `values`, and the user's line per site.

    Latent sites that are not in `values` get a feasible value. Where Python asks for the value of something
    traced, that error is raised whether the model catches it or not: as if the rest had been meant.
    """
    lines = _Lines()
    model = handlers.substitute(
        handlers.seed(ScopedScans(_Checked(fn)), jax.random.key(SEED)), data=dict(values)
    )
    model = handlers.substitute(model, substitute_fn=_found)
    with (
        handlers_alone,
        numpyro.validation_enabled(False),
        lines,
        asking.asks_heard(fn, wants_value) as asks,
    ):
        try:
            trace = handlers.trace(model).get_trace(*args, **kwargs)
            if asks.error is not None:
                raise asks.error
        except TRACER_ERRORS:
            raise
        except GibbsiteError as error:
            raise placed(error) from error.__cause__
        except Exception as error:
            if asks.error is not None:
                raise asks.error from None
            name = duplicated(error)
            better = (
                explained(error, {"plates": lines.plates}) if name is None else _twice(name, lines, error)
            )
            if better is None:
                raise
            raise better from error
    return trace, lines.lines


def _both(name: str, lines: Mapping[str, tuple[str, int]]) -> ModelError:
    return ModelError(
        f"{name!r} is the name of a site and of a plate, which NumPyro cannot tell apart; rename one of them"
    ).at(lines.get(name), "sampled-twice")


def _twice(name: str, lines: _Lines, error: BaseException) -> ModelError:
    """The error of a second site or plate called `name`, at the user's line of it."""
    first, spot = lines.lines.get(name), spot_of(error)
    if name in lines.plates:
        return _both(name, lines.lines)
    place = None if spot is None else (spot.file, spot.line)
    told = f"{name!r} is sampled twice"
    if first is not None and place is not None and first[0] == place[0] and first != place:
        told = f"{name!r} is sampled in line {first[1]} already"
    line = user_line_of_exception(error)
    return ModelError(
        f"{told}{f' ({line})' if line else ''}; give each statement a name of its own. A function that is "
        f"called several times is called within `numpyro.handlers.scope(prefix=…)`, another prefix each time"
    ).at(place, "sampled-twice")


def facts_of(trace: Mapping[str, Any], lines: Mapping[str, tuple[str, int]]) -> ModelFacts:
    """Site and plate facts of a model trace; refuses what cannot be handled, with the way out."""
    sites: dict[str, Site] = {}
    plates: dict[str, Plate] = {}
    factors, decisions = [], set[str]()
    enumerated = {}
    event_dims, limits = {}, {}
    transforms: dict[str, tuple[str, ...]] = {}
    for name, msg in trace.items():
        if msg["type"] == "plate":
            size, subsample = msg["args"][0], msg["args"][1]
            if subsample not in (None, size):
                raise ModelError(
                    f"plate {name!r} takes a random subsample of {subsample} of its {size} elements; a Gibbs "
                    f"sweep needs them all. Remove `subsample_size`, or use NumPyro's HMCECS to subsample"
                )
            continue
        if msg["type"] == "param" and not msg.get(FIXED):
            raise LooseParam.of(name)
        if msg["type"] not in ("sample", "deterministic"):
            continue
        if msg["type"] == "sample" and msg["is_observed"] and is_factor(msg["fn"]):
            factors.append(name)
            decisions |= {name} if msg["infer"].get(GIVEN) else set()
            continue
        checked_name(name, "site")
        frames = sorted(msg.get("cond_indep_stack", ()), key=lambda f: f.dim)
        for frame in frames:
            checked_name(frame.name, "plate")
            plates.setdefault(frame.name, Plate(frame.name, frame.size, frame.dim))
        sites[name] = _site(name, msg, frames, lines.get(name))
        if sites[name].latent:
            check_atoms(name, msg, lines.get(name))
        if sites[name].latent and sites[name].discrete:
            support = _enumerated(msg["fn"])
            if support is not None:
                enumerated[name] = support
        if msg["type"] == "sample":
            base, steps = innermost(msg["fn"])
            parameters = parameters_of(msg["fn"])
            event_dims[name] = {n: p.event_dim for n, p in parameters.items()}
            limits[name] = {n: p.constraint for n, p in parameters.items()}
            if steps:
                transforms[name] = (type(base).__name__, *steps)
    both = [n for n in plates if n in sites or (n in lines and trace[n]["type"] == "plate")]
    if both:
        raise _both(both[0], lines)
    check_apart([*sites, *plates])
    return ModelFacts(
        sites, plates, tuple(factors), enumerated, event_dims, limits, transforms, frozenset(decisions)
    )


def event_dim_of(constraint: Any, fn: Any) -> int:
    """How many axes of a parameter of `fn` are one event of it."""
    try:
        return constraint.event_dim
    except NotImplementedError:
        # `constraints.dependent` without a rank, which `Delta` alone has, for `v`: a whole event of its own
        return fn.event_dim


def _enumerated(fn: Any) -> np.ndarray | None:
    """The support of a discrete distribution that lists it; None where it cannot or is an integer range."""
    base = base_distribution(fn)
    if integer_bounds(base) is not None:
        return None
    if not base.has_enumerate_support:
        return listed(base)
    with jax.ensure_compile_time_eval():
        support = base.enumerate_support(expand=False)
    batch = len(base.batch_shape)
    support = np.asarray(support)
    return support.reshape((support.shape[0], *support.shape[1 + batch :]))


def integer_bounds(fn: Any) -> tuple[Any, Any] | None:
    """Lower and upper bound of a distribution on a range of integers, else None."""
    support = base_distribution(fn).support
    if not isinstance(support, constraints.integer_interval):
        return None
    return support.lower_bound, support.upper_bound


def _recorded_in(frames: Any, shape: tuple[int, ...]) -> list[tuple[Any, int]]:
    """The plates of a deterministic value with their axes; none where its shape does not show them all.

    It need not have the plates' axes, and may have axes of its own to their right.
    """
    for cut in range(len(shape), 0, -1):
        axes = [cut + f.dim for f in frames]
        if all(a >= 0 and shape[a] == f.size for f, a in zip(frames, axes, strict=True)):
            return list(zip(frames, axes, strict=True))
    return []


def _site(name: str, msg: Mapping[str, Any], frames: Any, line: tuple[str, int] | None) -> Site:
    value = msg["value"]
    shape = tuple(np.shape(value))
    dtype = jnp.result_type(value)
    if msg["type"] == "deterministic":
        discrete = not jnp.issubdtype(dtype, jnp.inexact)
        found = _recorded_in(frames, shape)
        return Site(
            name,
            shape,
            dtype,
            None,
            "deterministic",
            discrete,
            tuple(f.name for f, _ in found),
            shape,
            (),
            "Deterministic",
            line,
            tuple(axis for _, axis in found),
            len(shape),
        )
    fn: Distribution = msg["fn"]
    event_dim = fn.event_dim
    cut = len(shape) - event_dim
    axes = tuple(cut + f.dim for f in frames)
    inside = [(f, a) for f, a in zip(frames, axes, strict=True) if a >= 0]
    return Site(
        name,
        shape,
        dtype,
        fn.support,
        "observed" if msg["is_observed"] else "latent",
        bool(getattr(fn.support, "is_discrete", False)),
        tuple(f.name for f, _ in inside),
        shape[:cut],
        shape[cut:],
        type(base_distribution(fn)).__name__,
        line,
        tuple(a for _, a in inside),
        len(shape) - len(base_distribution(fn).event_shape),
        bool(msg.get("_control_flow_done")),
        msg["infer"].get(GIVEN),
        is_own(fn),
    )


def log_probs(
    trace: Mapping[str, Any], lines: Mapping[str, tuple[str, int]], counts: bool = False
) -> dict[str, Any]:
    """The unreduced log density of every sample site and factor, scaled and masked as NumPyro does.

    `lines` are those of the sites.

    Validation is off, because it would wrap every term in a test of its own value's support; but on for
    distributions made of others whose bounds the model computes, since no test from outside replaces it.
    """
    out = {}
    for name, msg in trace.items():
        if msg["type"] != "sample":
            continue
        value, intermediates, scale = msg["value"], msg["intermediates"], msg["scale"]
        extra = (intermediates,) if intermediates else ()
        if jnp.iscomplexobj(value):
            raise DataError(
                f"the values of {name!r} are complex numbers, of which no distribution has a density: give "
                f"their `.real` and `.imag`, or `abs()` of them"
            ).at(lines.get(name), "plates-and-data")
        try:
            supports = bounds_inside(base_distribution(msg["fn"]))
            with handlers_alone, numpyro.validation_enabled(supports):
                lp = held_in_tails(msg["fn"], counts).log_prob(jnp.asarray(value), *extra)
        except (ValueError, TypeError) as error:
            blamed = told_misfit(name, msg)
            entry = "plates-and-data" if blamed else "shapes"
            told = blamed or told_data_shapes(name, msg, trace, lines.get(name))
            raise DataError(told).at(lines.get(name), entry) from error
        except NotImplementedError as error:
            # NumPyro's base class raises it without a text where a density calls what a class left out
            *_, (frame, _) = walk_tb(error.__traceback__)
            of, kind = frame.f_locals.get("self"), type(base_distribution(msg["fn"])).__name__
            asked = f"`{frame.f_code.co_name}` of {type(of).__name__}, which is not implemented"
            raise ModelError(
                f"the density of {name!r}, {kind}, asks for "
                f"{asked if isinstance(of, Distribution) else f'what is not implemented: {error}'}; "
                f"take another distribution, or write it with `numpyro.factor`"
            ).at(lines.get(name)) from error
        if msg["is_observed"] and (crossed := told_crossed(name, msg, lines.get(name))) is not None:
            raise DataError(crossed).at(lines.get(name), "shapes")
        out[name] = lp if scale is None else scale * lp
    return out


def weights_of(msg: Mapping[str, Any]) -> list[Any]:
    """What a statement's log density is multiplied with, by `mask` and `scale`, over the site's elements."""
    fn, found = msg["fn"], []
    if is_factor(fn):
        return []
    rank = len(np.shape(msg["value"])) - len(base_distribution(fn).event_shape)

    def over_elements(weight: Any, batch: int) -> Any:
        array = jnp.asarray(weight)
        return array.reshape(array.shape + (1,) * (rank - batch)) if array.ndim and rank > batch else array

    if msg["scale"] is not None:
        found.append(over_elements(msg["scale"], len(fn.batch_shape)))
    while hasattr(fn, "base_dist") and fn is not base_distribution(fn):
        if (mask := getattr(fn, "_mask", None)) is not None:
            found.append(over_elements(mask, len(fn.batch_shape)))
        fn = fn.base_dist
    return found


def support_indicators(trace: Mapping[str, Any]) -> dict[str, Any]:
    """For sites whose supports have computed bounds, 0 inside and −inf outside, element by element."""
    tested = {
        n for n, m in trace.items() if m["type"] == "sample" and bounds_inside(base_distribution(m["fn"]))
    }
    sites = {n: m for n, m in trace.items() if m["type"] == "sample" and n not in tested}
    found = {n: support_indicator(m["fn"], m["value"]) for n, m in sites.items()}
    return {n: x for n, x in found.items() if x is not None}
