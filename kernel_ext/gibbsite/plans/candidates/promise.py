"""A schedule → what it promises: its work a sweep, and how long its slowest site remembers."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.draws.passes import passes_of
from gibbsite.conditional.linear.collapsed import outer_site
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.conditional.linear.polya_gamma import Likelihood, polya_gamma_block
from gibbsite.density import Density
from gibbsite.density.hierarchy.location_scale import RECURSION, location_scales
from gibbsite.density.known_elements import observed_values
from gibbsite.elimination import marginal_of
from gibbsite.plans.candidates.blocking import Tie, all_met, hardly_told, size_of
from gibbsite.plans.candidates.curvature import Curvature, curvature_of, gaussian_part
from gibbsite.plans.candidates.limits import (
    COMPILING,
    GRADIENT_TIMES,
    LONG_PATH,
    LOOP,
    MOST_GRADIENT_TIMES,
    MOST_MISSING,
    MOST_SLICES_TIMES,
    MOST_UNBOUNDED_TIMES,
    PATH,
    SHORT_PATH,
    SLICE_ALONE_TIMES,
    SLICE_TIMES,
    SLICED,
    SLICES,
    SOME_EFFECTS,
    SOME_EFFECTS_TIMES,
    WORTH,
)
from gibbsite.plans.candidates.trial import Sweep, is_exact
from gibbsite.plans.schedule.deterministic import joint_blocks
from gibbsite.plans.schedule.parse import Spec, Update
from gibbsite.plans.schedule.registry import Facts, apart
from gibbsite.programs.jaxpr.compat import staged

# A program → what it is made of → its work: one number, the same on every machine. The unit is about a
# nanosecond of a processor. What each part is worth is in `limits.WORTH`; `benchmarks/regret.py --fit` holds
# it against the time of programs.

_FREE = {"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "stop_gradient", "copy"}
_COSTLY = {"exp", "log", "log1p", "expm1", "tanh", "logistic", "pow", "sin", "cos", "lgamma", "digamma"}
_COSTLY |= {"erf", "erf_inv", "sqrt", "rsqrt", "random_bits", "threefry2x32", "sort"}
_STARTED = ("reduce", "arg", "gather", "scatter", "dynamic", "concatenate", "cum", "sort", "select_and")


@dataclass(frozen=True)
class Counted:
    """What one run of a program is made of: of each kind in `limits.WORTH` so many; and of how many
    `equations` it is compiled, which stays the same however often it runs."""

    parts: Mapping[str, float] = field(default_factory=dict)
    equations: int = 0

    @property
    def work(self) -> float:
        """Nanoseconds or so of a processor, for four chains."""
        return sum(WORTH[kind] * n for kind, n in self.parts.items())

    def __add__(self, other: "Counted") -> "Counted":
        kinds = self.parts.keys() | other.parts.keys()
        parts = {k: self.parts.get(k, 0.0) + other.parts.get(k, 0.0) for k in kinds}
        return Counted(parts, self.equations + other.equations)

    def __rmul__(self, times: float) -> "Counted":
        return Counted({k: times * n for k, n in self.parts.items()}, self.equations)


def counted(fn: Callable[..., Any], *arguments: Any) -> Counted:
    """What `fn(*arguments)` is made of, which is traced and not run; arguments may be shapes."""
    with staged():
        closed = jax.make_jaxpr(fn)(*arguments)
    return _of_program(closed.jaxpr, "operation")


def _of_program(jaxpr: Any, started: str) -> Counted:
    """What one run of a jaxpr is made of, whose operations are `started` in a loop or not. Loops that end by
    chance are taken as often as is told where they stand (`draws.passes`), others `limits.LOOP` times."""
    return sum((_of_equation(eqn, started) for eqn in jaxpr.eqns), Counted())


def _of_equation(eqn: Any, started: str) -> Counted:
    name, params = eqn.primitive.name, eqn.params
    size = max((_elements(v) for v in eqn.outvars), default=1)
    begun = Counted({started: 1}, 1)
    if name == "scan":
        return begun + params["length"] * _of_program(params["jaxpr"].jaxpr, "operation in a loop")
    if name == "while":
        parts = params["body_jaxpr"].jaxpr, params["cond_jaxpr"].jaxpr
        body, test = (_of_program(part, "operation in a loop") for part in parts)
        told = passes_of(eqn)
        passes = LOOP if told is None else told
        return begun + passes * body + (passes + 1) * test
    if name == "cond":
        return max((_of_program(b.jaxpr, started) for b in params["branches"]), key=lambda c: c.work)
    if name == "random_gamma":
        return begun + Counted({"gamma variate": size})
    inner = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
    if inner is not None:
        return _of_program(getattr(inner, "jaxpr", inner), started)
    if name in _FREE:
        return Counted({}, 1)
    if name == "dot_general":
        (left, _), _ = params["dimension_numbers"]
        summed = math.prod(eqn.invars[0].aval.shape[a] for a in left)
        return begun + Counted({"arithmetic": 2 * math.prod(eqn.outvars[0].aval.shape) * summed})
    if name in ("cholesky", "triangular_solve", "lu", "eigh", "qr"):
        shape = eqn.invars[0].aval.shape
        right = eqn.invars[-1].aval.shape[-1] if name == "triangular_solve" else shape[-1] / 3
        return Counted({"factorisation": 1, "arithmetic": math.prod(shape) * right}, 1)
    if name.startswith(_STARTED):
        return begun + Counted({"element": max(size, _elements(eqn.invars[0]))})
    return Counted({"costly element" if name in _COSTLY else "element": size}, 1)


def _elements(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


_OWN = {"NUTS": GRADIENT_TIMES, "HMC": GRADIENT_TIMES, "Slice": SLICE_ALONE_TIMES, "Collapsed": SLICE_TIMES}
_GRADIENT = Counted({"gradient": 1})


def programs(spec: Spec, of: Counted) -> Mapping[str, float]:
    """What the program of a schedule is made of, of each kind in `limits.COMPILING` so many."""
    collapsed = [u for u in spec.updates if u.kernel == "Collapsed" or u.eliminated]
    trajectories = sum(u.kernel in ("NUTS", "HMC") for u in spec.updates)
    kinds = {"equation": of.equations, "trajectories": trajectories, "block without others": len(collapsed)}
    return {"program": 1, **kinds}


def compiling(spec: Spec, of: Counted) -> float:
    """What compiling the program of a schedule takes, in nanoseconds of a processor."""
    return sum(COMPILING[kind] * n for kind, n in programs(spec, of).items())


def _key(update: Update) -> tuple[Any, ...]:
    return update.kernel, update.sites, update.eliminated


class Promises:
    """The work and the times of a model's schedules; what updates have in common is counted once.

    `meeting` is noise whose data others can meet all of, where the plainest schedule moves them apart.
    """

    def __init__(self, facts: Facts, ties: Sequence[Tie], meeting: Collection[Tie] = ()):
        self.facts, self.ties, self.held, self.meeting = facts, tuple(ties), tuple(ties), meeting
        self._counted: dict[Any, Counted] = {}
        sites = facts.density.sites.values()
        numbers = sum(math.prod(site.shape) for site in sites if site.latent)
        self._any = Counted({"sweep": 1, "number": numbers})
        self._measured: dict[str, float] = {}
        self._curved: dict[Any, Curvature | None] = {}

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
        found = Promises(self.facts, ties, self.meeting)
        found._counted, found.held, found._curved = self._counted, self.held, self._curved
        found._measured = {**self._measured, str(spec): max(times.values())}
        return found

    def counted(self, spec: Spec) -> Counted:
        """What a sweep is made of."""
        return sum((u.repeat * self._of(u) for u in spec.updates), self._any)

    def least(self, spec: Spec) -> Counted:
        """What a sweep is made of at least, of which nothing is derived that was not before."""
        return sum((u.repeat * self._least_of(u) for u in spec.updates), self._any)

    def work(self, spec: Spec) -> float:
        """What a sweep takes, in about nanoseconds for four chains."""
        return self.counted(spec).work

    def derived(self, spec: Spec) -> bool:
        """Whether its work is known."""
        return all(_key(u) in self._counted for u in spec.updates)

    def uncurved(self, spec: Spec) -> list[Update]:
        """Blocks of gradients of which a part is Gaussian, whose curvature was not looked at."""
        return [u for u in spec.updates if _key(u) not in self._curved and self._part(u)]

    def look(self, updates: Sequence[Update]) -> None:
        """Look at the curvature of what is Gaussian in blocks of gradients."""
        for u in updates:
            self._curved[_key(u)] = curvature_of(self.facts, u.sites, self._part(u))

    def look_away(self, updates: Sequence[Update]) -> None:
        """Have the curvature of these tell nothing."""
        self._curved.update(dict.fromkeys(map(_key, updates)))

    def _part(self, update: Update) -> tuple[str, ...]:
        whole = update.kernel == "NUTS" and not update.eliminated and not update.options
        return gaussian_part(self.facts, update.sites) if whole else ()

    def _by_curvature(self, update: Update) -> tuple[float, float]:
        found = self._curved.get(_key(update))
        return (1.0, 1.0) if found is None else found.by_gradients

    def _in_turn(self, spec: Spec) -> tuple[float, float]:
        """The least and the most time of Gaussian sites that exact draws take apart, by their curvature."""
        least, most = 1.0, 1.0
        for found in filter(None, self._curved.values()):
            own = (tuple(n for n in u.sites if n in found.places) for u in spec.updates if is_exact(u))
            blocks = tuple(filter(None, own))
            if len(blocks) > 1 and sum(map(len, blocks)) == len(found.places):
                low, high = found.in_turn(blocks)
                least, most = max(least, low), max(most, high)
        return least, most

    def times(self, spec: Spec) -> tuple[float, float, Tie | None]:
        """The least and the most time of the site that moves least, and the tie that holds it, if any."""
        home = {n: u for u in spec.updates for n in u.everything}
        own = {n: self._own(u) for n, u in home.items()}
        worst = {n: self._most_of(u) or own[n] for n, u in home.items()}
        cut = [t for t in self.ties if t.cut_by(home)]
        slowest = max(cut, key=lambda t: (t.most * own[t.site], t.least), default=None)
        apart = self._in_turn(spec)
        least = max([*own.values(), *(t.least * own[t.site] for t in cut), apart[0]])
        waits: dict[str, float] = {}
        for t in (t for t in cut if not t.known):
            waits[t.site] = max(waits.get(t.site, 1.0), t.most * own[t.site])
        # what is not known of several may come together
        most = max([least, apart[1], *worst.values(), 1 + sum(w - 1 for w in waits.values())])
        if str(spec) in self._measured:
            return self._measured[str(spec)], self._measured[str(spec)], slowest
        if slowest is None or slowest.most * own[slowest.site] < max(*own.values(), *worst.values()):
            return least, most, None
        return least, max(most, slowest.most * own[slowest.site]), slowest

    def longer(self, spec: Spec) -> float:
        """How many times the gradients that are counted a step may take: what holds draws back makes
        trajectories long first."""
        density = self.facts.density
        held = [
            size_of(density, [n for n in u.sites if n in density.sites])
            for u in spec.updates
            if u.kernel in ("NUTS", "HMC") and (self._most_of(u) or 0) > MOST_GRADIENT_TIMES
        ]
        return float(np.clip(max(held, default=0) / SHORT_PATH, 1, LONG_PATH))

    def _most_of(self, update: Update) -> float | None:
        """The most time of several scales that are sliced in turn, and of gradients: longer where what
        they move besides takes most of what data say of their noise (3, 5 and 6 coefficients of 7 data: 3.6,
        5.8 and 15 measured, and 68 divergences; a walk of one datum a state: 43), and where states are a
        share of those before, which no coordinates make up for (60, 120 and 360 with a datum each: up to 9,
        20 and 160). Elements of a discrete site that would be drawn jointly are drawn one by one with others
        integrated out (a lattice of nine: they never moved). None elsewhere."""
        mine = {*update.sites}
        outer = outer_of(self.facts.density, update.sites) if update.kernel == "Collapsed" else ()
        if len(outer) > 1:
            return MOST_SLICES_TIMES
        if outer and self.facts.density.sites[outer[0]].discrete:
            return MOST_MISSING if joint_blocks(self.facts, {n: (n,) for n in outer}) else None
        within = [t for t in self.held if t.site in mine and not t.known]
        if update.kernel not in ("NUTS", "HMC"):
            return None
        shares = [t.most for t in within if t.where in mine and _is_share(self.facts.density, t)]
        few = hardly_told(self.facts.density, update.sites, SOME_EFFECTS)
        least = SOME_EFFECTS_TIMES if few else MOST_GRADIENT_TIMES
        most = max([min(MOST_UNBOUNDED_TIMES, max(least, self._noise_of(update)[1])), *shares])
        return max(most, self._by_curvature(update)[1])

    def _noise_of(self, update: Update) -> tuple[float, float]:
        """The least and the most time of what data say of their noise where gradients move it with what takes
        most of that from them; zeros where they move no noise."""
        density, mine = self.facts.density, {*update.sites}
        gone = {m for n in update.eliminated for m in density.members.get(n, (n,))} | {*update.eliminated}

        def takes(t: Tie) -> bool:
            left = {*t.given} - gone
            if t.level or t.through or not left or not left <= mine:
                return False
            return left == {*t.given} or (t.where in density.sites and all_met(density, t.where, left))

        within = [t for t in self.held if t.site in mine and not t.known]
        data = [t for t in within if takes(t)]
        funnel = any(t.where in mine for t in within)
        meeting = () if update.eliminated else self.meeting
        taken = [t for t in data if funnel or not t.unbounded or t in meeting]
        return max((t.least for t in taken), default=0.0), max((t.most for t in taken), default=0.0)

    def _own(self, update: Update) -> float:
        """The time that a kernel needs by itself: of gradients at least what curvature leaves, and longer
        where states take all from their noise; of Pólya-gamma draws what their variates know beyond the
        data."""
        if update.kernel != "PolyaGamma":
            taken = self._noise_of(update)[0] if update.kernel in ("NUTS", "HMC") else 0.0
            return max(_OWN.get(update.kernel, 1.0), taken, self._by_curvature(update)[0])
        kept = min(map(kept_information, polya_gamma_block(self.facts.density, update.sites).likelihoods))
        return (2 - kept) / kept if kept else math.inf

    def _least_of(self, update: Update) -> Counted:
        if _key(update) in self._counted:
            return self._counted[_key(update)]
        if update.kernel not in ("NUTS", "HMC"):
            return Counted()
        return self._path(update) * (_GRADIENT + self._density(jax.value_and_grad))

    def _path(self, update: Update) -> float:
        """Gradients of a step."""
        sites = self.facts.density.sites
        return PATH * math.sqrt(size_of(self.facts.density, [n for n in update.sites if n in sites]))

    def _of(self, update: Update) -> Counted:
        key = _key(update)
        if key not in self._counted:
            self._counted[key] = self._count(update)
        return self._counted[key]

    def _count(self, u: Update) -> Counted:
        facts, density = self.facts, self.facts.density
        outer = outer_of(density, u.sites) if u.kernel == "Collapsed" else ()
        if any(not density.sites[n].discrete for n in outer):
            inner = [n for n in u.sites if n not in outer]
            solved = self._of(Update("Conjugate", tuple(inner)))
            loops = Counted({}, solved.equations * len(outer))  # one around each of the sites
            return (1 + sum(map(self._evaluations, outer))) * solved + loops
        if is_exact(u):
            return self._exact(u)
        if u.kernel in ("NUTS", "HMC", "ReflectiveSlice"):
            if not u.eliminated:
                return self._path(u) * (_GRADIENT + self._density(jax.value_and_grad))
            left = marginal_of(density, u.eliminated)
            moved, fixed, data = self._arguments(u.eliminated)

            def value(moved: Any, fixed: Any) -> Any:
                return left.logdensity_at({**moved, **fixed}, data)

            drawn = counted(left.draw_at, jax.random.key(0), {**moved, **fixed}, data)
            return self._path(u) * (_GRADIENT + counted(jax.value_and_grad(value), moved, fixed)) + drawn
        each = 1 if apart(facts, u.sites) else size_of(density, [n for n in u.sites if n in density.sites])
        return SLICED * each * self._density(lambda f: f)

    def _evaluations(self, site: str) -> int:
        """How often the Gaussian sites of a block are solved for while a site is drawn without them."""
        found = outer_site(self.facts.density, site)
        return found.evaluations if self.facts.density.sites[site].discrete else SLICES * found.elements

    def _exact(self, update: Update) -> Counted:
        sweep = Sweep(self.facts, [update])
        return counted(sweep, jax.random.key(0), self.facts.density.latent_shapes, self.facts.inputs)

    def _density(self, of: Callable[..., Any]) -> Counted:
        moved, fixed, data = self._arguments()

        def value(moved: Any, fixed: Any) -> Any:
            return self.facts.density.log_joint_at({**moved, **fixed}, data)

        key = ("density", of)
        if key not in self._counted:
            self._counted[key] = counted(of(value), moved, fixed)
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


def _is_share(density: Density, tie: Tie) -> bool:
    """Whether a site is read by the location of others that also read earlier ones of their own."""
    child = location_scales(density).get(tie.where)
    return child is not None and child.form == RECURSION and tie.site in child.location


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
