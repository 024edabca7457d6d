"""A schedule → what it promises: its work a sweep, and how long its slowest site remembers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.draws.passes import passes_of
from gibbsite.conditional.linear.collapsed import outer_site
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.conditional.linear.polya_gamma import Likelihood, polya_gamma_block
from gibbsite.density import Density
from gibbsite.density.known_elements import observed_values
from gibbsite.elimination import marginal_of
from gibbsite.plans.candidates.blocking import Tie, size_of
from gibbsite.plans.candidates.limits import (
    ARITHMETIC,
    AT_ONCE,
    COSTLY,
    FACTORISATION,
    GRADIENT_TIMES,
    LONG,
    LOOP,
    MOST_GRADIENT_TIMES,
    MOST_SLICES_TIMES,
    MOST_UNBOUNDED_TIMES,
    OPERATION,
    OPERATION_IN_LOOP,
    PATH,
    SLICE_ALONE_TIMES,
    SLICE_TIMES,
    SLICED,
    SLICES,
    SWEEP,
    TREE,
    VARIATE,
)
from gibbsite.plans.candidates.trial import Sweep, is_exact
from gibbsite.plans.schedule.parse import Spec, Update
from gibbsite.plans.schedule.registry import Facts, apart
from gibbsite.programs.jaxpr.compat import staged

# A program → its work: one number, the same on every machine.
#
# The unit is one element of an elementwise operation (a nanosecond or so). Three things cost: elements,
# which a processor takes in one after another; arithmetic of matrices, of which several go into a unit; and
# operations as such, which XLA starts one by one. What each is worth is in `limits`, and
# `benchmarks/regret.py` holds the count against the time of the program.


_FREE = {"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "stop_gradient", "copy"}
_COSTLY = {"exp", "log", "log1p", "expm1", "tanh", "logistic", "pow", "sin", "cos", "lgamma", "digamma"}
_COSTLY |= {"erf", "erf_inv", "sqrt", "rsqrt", "random_bits", "threefry2x32", "sort"}
_STARTED = ("reduce", "arg", "gather", "scatter", "dynamic", "concatenate", "cum", "sort", "select_and")


def work_of(fn: Callable[..., Any], *arguments: Any) -> float:
    """The work of `fn(*arguments)`, which is traced and not run; arguments may be shapes."""
    with staged():
        closed = jax.make_jaxpr(fn)(*arguments)
    return work_of_program(closed.jaxpr)


def work_of_program(jaxpr: Any, start: float = OPERATION) -> float:
    """The work of one run of a jaxpr, of whose operations each takes `start` to begin with. Loops that end by
    chance are taken as often as is told where they stand (`draws.passes`), others `limits.LOOP` times. On
    CPUs a loop is one function, whose operations begin sooner.
    """
    return sum(_work(eqn, start) for eqn in jaxpr.eqns)


def _work(eqn: Any, start: float) -> float:
    name, params = eqn.primitive.name, eqn.params
    size = max((_worth(v) for v in eqn.outvars), default=1.0)
    if name == "scan":
        return start + params["length"] * work_of_program(params["jaxpr"].jaxpr, OPERATION_IN_LOOP)
    if name == "while":
        parts = params["body_jaxpr"].jaxpr, params["cond_jaxpr"].jaxpr
        body, test = (work_of_program(part, OPERATION_IN_LOOP) for part in parts)
        told = passes_of(eqn)
        passes = LOOP if told is None else told
        return start + passes * body + (passes + 1) * test
    if name == "cond":
        return max(work_of_program(b.jaxpr, start) for b in params["branches"])
    if name == "random_gamma":
        return start + VARIATE * size
    inner = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
    if inner is not None:
        return work_of_program(getattr(inner, "jaxpr", inner), start)
    if name in _FREE:
        return 0.0
    if name == "dot_general":
        (left, _), _ = params["dimension_numbers"]
        summed = math.prod(eqn.invars[0].aval.shape[a] for a in left)
        return start + 2 * math.prod(eqn.outvars[0].aval.shape) * summed / ARITHMETIC
    if name in ("cholesky", "triangular_solve", "lu", "eigh", "qr"):
        shape = eqn.invars[0].aval.shape
        right = eqn.invars[-1].aval.shape[-1] if name == "triangular_solve" else shape[-1] / 3
        return FACTORISATION + math.prod(shape) * right / ARITHMETIC
    if name.startswith(_STARTED):
        return start + max(size, _worth(eqn.invars[0]))
    return size * (COSTLY if name in _COSTLY else 1.0)


def _worth(variable: Any) -> float:
    """Elements of a variable, of which long arrays hand a processor several at once."""
    size = math.prod(getattr(variable.aval, "shape", ()))
    return size if size <= LONG else LONG + (size - LONG) / AT_ONCE


_OWN = {"NUTS": GRADIENT_TIMES, "HMC": GRADIENT_TIMES, "Slice": SLICE_ALONE_TIMES, "Collapsed": SLICE_TIMES}


def _key(update: Update) -> tuple[Any, ...]:
    return update.kernel, update.sites, update.eliminated


class Promises:
    """The work and the times of a model's schedules; what updates have in common is counted once."""

    def __init__(self, facts: Facts, ties: Sequence[Tie]):
        self.facts, self.ties, self.held = facts, tuple(ties), tuple(ties)
        self._counted: dict[Any, float] = {}
        self._measured: dict[str, float] = {}

    def tried(self, spec: Spec, times: Any) -> "Promises":
        """The same after a trial of a schedule, which found `times` by site: a site is as slow as switches
        that hold it. A tie that is the only one on its site is known then; of several none is slower."""
        home, sites = {n: u for u in spec.updates for n in u.everything}, self.facts.density.sites
        cut = [t for t in self.ties if t.site in times and t.cut_by(home)]
        ties = []
        for t in self.ties:
            slow = [times[n] for n in (t.site, *t.given) if n in times and (n == t.site or sites[n].discrete)]
            alone = sum(t.site == other.site for other in cut) == 1
            ties.append(t.tried(max(slow), alone) if t in cut else t)
        found = Promises(self.facts, ties)
        found._counted, found.held = self._counted, self.held
        found._measured = {**self._measured, str(spec): max(times.values())}
        return found

    def work(self, spec: Spec) -> float:
        """Operations of one sweep, as `work.work_of` counts them."""
        return SWEEP + sum(u.repeat * self._of(u) for u in spec.updates)

    def least_work(self, spec: Spec) -> float:
        """What a sweep takes at least, of which nothing is derived that was not before."""
        return SWEEP + sum(u.repeat * self._least_of(u) for u in spec.updates)

    def derived(self, spec: Spec) -> bool:
        """Whether its work is known."""
        return all(_key(u) in self._counted for u in spec.updates)

    def times(self, spec: Spec) -> tuple[float, float, Tie | None]:
        """The least and the most time of the site that moves least, and the tie that holds it, if any."""
        home = {n: u for u in spec.updates for n in u.everything}
        own = {n: self._own(u) for n, u in home.items()}
        worst = {n: self._most_of(u) or own[n] for n, u in home.items()}
        cut = [t for t in self.ties if t.cut_by(home)]
        slowest = max(cut, key=lambda t: (t.most * own[t.site], t.least), default=None)
        least = max([*own.values(), *(t.least * own[t.site] for t in cut)])
        waits: dict[str, float] = {}
        for t in (t for t in cut if not t.known):
            waits[t.site] = max(waits.get(t.site, 1.0), t.most * own[t.site])
        # what is not known of several may come together
        most = max([least, *worst.values(), 1 + sum(w - 1 for w in waits.values())])
        if str(spec) in self._measured:
            return self._measured[str(spec)], self._measured[str(spec)], slowest
        if slowest is None or slowest.most * own[slowest.site] < max(*own.values(), *worst.values()):
            return least, most, None
        return least, max(most, slowest.most * own[slowest.site]), slowest

    def _most_of(self, update: Update) -> float | None:
        """The most time of several scales that are sliced in turn, and where gradients move what holds each
        other: a funnel, which no step size fits everywhere, with two necks where the noise of all its data
        can reach zero; one where coefficients take most of the data (3, 5 and 6 of 7: 3.6, 5.8 and 15
        measured, and 68 divergences). None elsewhere."""
        mine = {*update.sites}
        if update.kernel == "Collapsed" and len(outer_of(self.facts.density, update.sites)) > 1:
            return MOST_SLICES_TIMES
        within = [t for t in self.held if t.site in mine and not t.known]
        if update.kernel not in ("NUTS", "HMC"):
            return None
        if not any(t.where in mine for t in within):
            noise = [t for t in within if {*t.given} <= mine and not (t.level or t.unbounded or t.through)]
            return max((t.most for t in noise), default=None)
        two = any(t.unbounded and mine & {*t.given} for t in within)
        return MOST_UNBOUNDED_TIMES if two else MOST_GRADIENT_TIMES

    def _own(self, update: Update) -> float:
        """The time that a kernel needs by itself: of Pólya-gamma draws what their variates know beyond the
        data."""
        if update.kernel != "PolyaGamma":
            return _OWN.get(update.kernel, 1.0)
        kept = min(map(kept_information, polya_gamma_block(self.facts.density, update.sites).likelihoods))
        return (2 - kept) / kept if kept else math.inf

    def _least_of(self, update: Update) -> float:
        if _key(update) in self._counted:
            return self._counted[_key(update)]
        if update.kernel not in ("NUTS", "HMC"):
            return 0.0
        sites = self.facts.density.sites
        steps = PATH * math.sqrt(size_of(self.facts.density, [n for n in update.sites if n in sites]))
        return steps * (TREE + self._density(jax.value_and_grad))

    def _of(self, update: Update) -> float:
        key = _key(update)
        if key not in self._counted:
            self._counted[key] = self._count(update)
        return self._counted[key]

    def _count(self, u: Update) -> float:
        facts, density = self.facts, self.facts.density
        outer = outer_of(density, u.sites) if u.kernel == "Collapsed" else ()
        if any(not density.sites[n].discrete for n in outer):
            inner = [n for n in u.sites if n not in outer]
            return (1 + sum(map(self._evaluations, outer))) * self._of(Update("Conjugate", tuple(inner)))
        if is_exact(u):
            return self._exact(u)
        if u.kernel in ("NUTS", "HMC", "ReflectiveSlice"):
            steps = PATH * math.sqrt(size_of(density, [n for n in u.sites if n in density.sites]))
            if not u.eliminated:
                return steps * (TREE + self._density(jax.value_and_grad))
            left = marginal_of(density, u.eliminated)
            moved, fixed, data = self._arguments(u.eliminated)

            def value(moved: Any, fixed: Any) -> Any:
                return left.logdensity_at({**moved, **fixed}, data)

            drawn = work_of(left.draw_at, jax.random.key(0), {**moved, **fixed}, data)
            return steps * (TREE + work_of(jax.value_and_grad(value), moved, fixed)) + drawn
        each = 1 if apart(facts, u.sites) else size_of(density, [n for n in u.sites if n in density.sites])
        return SLICED * each * self._density(lambda f: f)

    def _evaluations(self, site: str) -> int:
        """How often the Gaussian sites of a block are solved for while a site is drawn without them."""
        found = outer_site(self.facts.density, site)
        return found.evaluations if self.facts.density.sites[site].discrete else SLICES * found.elements

    def _exact(self, update: Update) -> float:
        sweep = Sweep(self.facts, [update])
        sites = self.facts.density.sites
        state = {n: jax.ShapeDtypeStruct(s.shape, s.dtype) for n, s in sites.items() if s.latent}
        return work_of(sweep, jax.random.key(0), state, self.facts.inputs)

    def _density(self, of: Callable[..., Any]) -> float:
        moved, fixed, data = self._arguments()

        def value(moved: Any, fixed: Any) -> Any:
            return self.facts.density.log_joint_at({**moved, **fixed}, data)

        key = ("density", of)
        if key not in self._counted:
            self._counted[key] = work_of(of(value), moved, fixed)
        return self._counted[key]

    def _arguments(self, without: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """Shapes of the continuous and of the discrete latents, and the data."""
        density = self.facts.density
        gone = {m for n in without for m in density.groups.get(n, (n,))}
        kept = {n: s for n, s in density.sites.items() if n in density.latent_vars and n not in gone}
        shapes = {n: jax.ShapeDtypeStruct(s.shape, s.dtype) for n, s in kept.items()}
        fixed = {n: s for n, s in shapes.items() if kept[n].discrete}
        moved = {n: s for n, s in shapes.items() if n not in fixed}
        return moved, fixed, tuple(density.arguments.arrays)


def outer_of(density: Density, sites: Sequence[str]) -> tuple[str, ...]:
    """The sites of a collapsed block that are drawn with the others integrated out."""
    found = {n: density.sites[n].discrete or not is_gaussian(conditional_of(density, n)) for n in sites}
    return tuple(n for n in sites if found[n])


def kept_information(likelihood: Likelihood) -> float:
    """Of the information of Pólya-gamma variates, the part that is the data's, at their average rate; 0 where
    that is not known. The rest is what drawing these anew loses."""
    density, origin = likelihood.density, likelihood.origin
    if origin not in observed_values(density) or not likelihood.free:
        return 0.0
    y = np.asarray(observed_values(density)[origin], np.float64)
    rate = (np.nansum(y) + 0.5) / (likelihood.total + 1)
    if not 0 < rate < 1:
        return 0.0
    psi = np.log(rate / (1 - rate))
    return rate * (1 - rate) * (4.0 if abs(psi) < 1e-3 else 2 * psi / np.tanh(psi / 2))
