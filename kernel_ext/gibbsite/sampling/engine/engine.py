"""The compiled part of a run: all chains at once on one or several devices, any number of steps per call."""

import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpyro import handlers

from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.terms import Term, summed
from gibbsite.errors import CheckpointError, ModelError
from gibbsite.ground.angles import once_around
from gibbsite.kernels.nuts.collectives import AXIS
from gibbsite.kernels.nuts.windows import FINAL
from gibbsite.plans.schedule.plan import GRADIENTS, Plan
from gibbsite.programs.evaluation.pieces import in_marked
from gibbsite.programs.jaxpr.compat import RIGHT
from gibbsite.programs.jaxpr.compiling import Surroundings, compiled
from gibbsite.programs.passes.for_cpu import for_cpu, lowered_for_cpu
from gibbsite.sampling.engine.abandonable import UnderWay, beside
from gibbsite.sampling.engine.in_flight import Flight
from gibbsite.sampling.engine.initial import RADIUS, Asked, first_values, logdensity_at_start
from gibbsite.sampling.engine.stages import COMPILING, TRACING
from gibbsite.sampling.engine.timing import lowered_blocks

INPUTS = "_gibbsite_inputs"
_LONGEST_PATH = 4
_TURNS = "_unwrapped"  # how NumPyro calls them
# fields of block states that are worth recording, by the name under which people know them
_FIELDS = {
    "diverging": "diverging",
    "accept_prob": "acceptance_rate",
    "num_steps": "n_steps",
    "energy": "energy",
    "potential_energy": "potential_energy",
    "rounding": "rounding",
}
# what the steps that thinning leaves out add to the one that is kept
_GATHERED = {"diverging": jnp.logical_or, "n_steps": jnp.add, "rounding": jnp.maximum}


def block_stats(states: tuple[Any, ...]) -> dict[str, Any]:
    """The recordable fields of every block's state, as `"<block>.<name>"`."""
    out = {}
    for i, state in enumerate(states):
        for field, name in _FIELDS.items():
            if hasattr(state, field):
                out[f"{i}.{name}"] = getattr(state, field)
        adapted = getattr(state, "adapt_state", None)
        step_size = getattr(adapted, "step_size", None) if adapted is not None else None
        if step_size is None:
            step_size = getattr(state, "step_size", None)
        if step_size is not None:
            out[f"{i}.step_size"] = step_size
    return out


def _shared(leaf: Any, sharding: NamedSharding) -> Any:
    """An array that every host has as one of all their devices."""
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return leaf  # it came from there
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        words = _shared(jax.random.key_data(leaf), sharding)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    whole = np.asarray(leaf)
    return jax.make_array_from_callback(whole.shape, sharding, lambda part: whole[part])


# axes of steps and chains that stand before a site's own, by what a program takes and gives
_LEADING = {"chain": 1, None: 0}
_LEADING_OUT = {"chain": 1, ("chain", "buffers"): (1, 2)}


@dataclass(frozen=True)
class _Partitioned:
    """A program whose arguments and results are split by data: the shapes of the results tell how."""

    fn: Any
    ins: tuple[int, ...]
    outs: int | tuple[int, ...]
    by_size: Any
    whole: bool  # whether what has chains is whole on every device before and after, and split between

    def lower(self, *arguments: Any) -> Any:
        """As that of `jax.jit`."""
        ins = self._shardings(arguments, self.ins)
        outs = self._shardings(jax.eval_shape(self.fn, *arguments), self.outs)
        if not self.whole:
            return jax.jit(self.fn, in_shardings=ins, out_shardings=outs).lower(*arguments)

        def split(*arguments: Any) -> Any:
            results = self.fn(*jax.lax.with_sharding_constraint(arguments, ins))
            return jax.lax.with_sharding_constraint(results, outs)

        mesh = jax.tree.leaves(outs)[0].mesh
        everywhere = NamedSharding(mesh, PartitionSpec())
        before = tuple(everywhere if n else part for part, n in zip(ins, self.ins, strict=True))
        return jax.jit(split, in_shardings=before, out_shardings=everywhere).lower(*arguments)

    def _shardings(self, tree: Any, leading: int | tuple[int, ...]) -> Any:
        if isinstance(leading, int):
            return self.by_size(tree, leading)
        return tuple(self.by_size(t, n) for t, n in zip(tree, leading, strict=True))


@dataclass(frozen=True)
class _OnCpu:
    """A program for one CPU."""

    fn: Any

    def lower(self, *arguments: Any) -> Any:
        """As that of `jax.jit`."""
        return lowered_for_cpu(self.fn, *arguments)


@contextmanager
def _traced(tell: Callable[[str, bool], None]) -> Iterator[None]:
    """A model is traced, which may be broken off: but for taking and giving back NumPyro's handlers."""
    tell(TRACING, False)
    with handlers_alone:
        tell(TRACING, True)
        yield
        tell(TRACING, False)


class Engine:
    """Initialises and advances the chains of one plan.

    One step loop is compiled, with the number of steps as an argument, so the draws do not depend on how
    the run was cut into chunks. `capacity` bounds the steps of one call. After warm-up a step is `thin`
    sweeps, of which the last is recorded. With several `devices` the chains are dealt out evenly; each
    device runs its own loop, so none waits for another's trajectories. With `shard`, the size of a plate,
    every device holds its part of all arrays with an axis of that length instead, and all chains; XLA's
    partitioner puts in the sums across devices. It changes where numbers are, not which: a wrong guess about
    an axis costs time alone. The devices are then groups of `parts`, over which the chains are dealt out;
    where they are of several hosts (`across`), these step in common, and states and records are whole on
    each. `share`: the number of the first of these chains, and of how many in all, where
    other hosts run the rest; it decides their random keys. `surroundings` are the settings of JAX that its
    programs are made in. A chunk is to take `chunk_seconds`.
    """

    chunk_seconds = 0.2
    leg = 5  # steps of a start between looks at whether it is to stop
    first_chunk = 1

    def __init__(
        self,
        plan: Plan,
        chains: int,
        warmup: int,
        capacity: int,
        devices: tuple[Any, ...],
        thin: int = 1,
        shard: int | None = None,
        share: tuple[int, int] | None = None,
        parts: int | None = None,
        surroundings: Surroundings | None = None,
    ):
        self.plan, self.chains, self.warmup, self.capacity = plan, chains, warmup, capacity
        self.devices, self.thin, self.shard = devices, thin, shard
        self.share = share or (0, chains)
        self.surroundings = surroundings or Surroundings.here()
        self.kernel = (
            plan.kernel
        )  # NumPyro's kernels keep what `init` found: this one is ready after `compile`
        self._programs: dict[str, Any] = {}
        self._compiling, self._under_way = threading.Lock(), UnderWay()
        self.because = ""  # why what was compiled before would not do
        self._costs = {"compile_seconds": 0.0}  # shared with engines for other data, like the programs
        groups = 1 if shard is None else len(devices) // (parts or len(devices))
        grid = np.array(devices) if shard is None else np.array(devices).reshape(groups, -1)
        names = ("chain",) if shard is None else ("groups", "data")
        self._mesh = Mesh(grid, names) if len(devices) > 1 else None
        self._groups = "groups" if groups > 1 else None
        own = [d for d in devices if d.process_index == jax.process_index()]
        self.home, self.across = own[0], len(own) < len(devices)

    def rebound(self, plan: Plan) -> "Engine":
        """The same compiled programs for a plan of equal `cache_key` with other data."""
        engine = copy.copy(self)
        engine.plan = plan
        return engine

    def agreed(self, stop: bool, size: int) -> tuple[bool, int]:
        """Whether to stop, and how many steps to make next: what all hosts that step in common do, where any
        of them is to stop, by the first one's clock."""
        if not self.across:
            return stop, size
        told = multihost_utils.process_allgather(np.array([stop, size], np.int32))
        return bool(told[:, 0].any()), int(told[0, 1])

    def in_step(self, steps: int) -> None:
        """Raise `CheckpointError` where hosts that go on in common have not the same `steps` behind them."""
        if self.across and len(set(told := multihost_utils.process_allgather(np.int32(steps)).tolist())) > 1:
            raise CheckpointError(
                f"the hosts of this run stored different numbers of steps, {told} (0: a host without the "
                f"run, as where a folder is not seen by all): copy the folder of one over those of the "
                f"others, and start again"
            )

    @property
    def template(self) -> Any:
        """Shapes and dtypes of a state, as a tree of `jax.ShapeDtypeStruct`. Only after `compile`."""
        return self._programs["template"]

    @property
    def ready(self) -> bool:
        """Whether `compile` has nothing to do."""
        return bool(self._programs)

    def compile(self, tell: Callable[[str, bool], None] = lambda stage, breakable: None) -> None:
        """Compile both programs, side by side; does nothing where that is done already. Where another thread
        is at it, waits for that one.

        `tell(stage, breakable)` is told of tracing, which may be broken off by an exception, and of
        compiling.
        """
        at = self._under_way
        with at.taken(self._compiling, tell):
            if not self.ready:
                began = time.monotonic()
                self._compile(at.also_told(tell))
                self._costs["compile_seconds"] = time.monotonic() - began

    @property
    def awaited(self) -> bool:
        """Whether another thread waits for what `compile` is at."""
        return self._under_way.awaited

    def compile_rest(self) -> None:
        """Compile what a run needs besides, and would compile when it comes to that. Only after `compile`."""
        if self._mesh is None:
            self._kept("constrained", self._constrained, self.template)
            self._choosing(jax.ShapeDtypeStruct((self.chains,), bool), self.template, self.template)
            if self.window_ends:
                self._pooling(self.template)

    @property
    def compile_seconds(self) -> float:
        """How long `compile` took when it last had something to do."""
        return self._costs["compile_seconds"]

    @property
    def block_programs(self) -> list[Any] | None:
        """What `compile_blocks` made; None before."""
        return self._programs.get("blocks")

    def compile_blocks(self, kwargs: dict[str, Any], states: Any) -> list[Any]:
        """Compile every block by itself, for measuring; does nothing where that is done already."""
        with self._compiling:
            if "blocks" not in self._programs:
                with self.surroundings.carried(), jax.default_device(self.home):
                    with handlers_alone:
                        lowered = lowered_blocks(self.kernel, kwargs, states, self._on_cpu)
                    self._programs["blocks"] = [compiled(program) for program in lowered]
            return self._programs["blocks"]

    def _expect(self, seconds: float) -> None:
        self._costs["until"] = time.monotonic() + seconds

    @property
    def compiling_left(self) -> float:
        """How many seconds compiling will go on, by what programs like it took; 0 where nobody knows."""
        return max(0.0, self._costs.get("until", 0.0) - time.monotonic())

    def _compile(self, tell: Callable[[str, bool], None]) -> None:
        first, asked, template = self._lowered_first(tell)
        with beside(lambda: [compiled(p, quickly=self._on_cpu) for p in first]) as compiled_first:
            count = jax.ShapeDtypeStruct((), jnp.int32)
            program = self._jit(self._advance_chains, ("chain", None, None, None), ("chain", "buffers"))
            with _traced(tell):
                lowered = program.lower(template, self.plan.inputs, count, count)
            tell(COMPILING, False)
            on = self.plan.inputs if self._on_cpu else None
            advance = compiled(lowered, on=on, expect=self._expect)
            dealt, started = compiled_first()
            self._programs.update(keys=dealt, init=started, template=template, asked=asked, advance=advance)

    def _lowered_first(self, tell: Callable[[str, bool], None]) -> tuple[tuple[Any, Any], Any, Any]:
        """What deals keys out and what makes states, to be compiled; the shapes that the latter takes, and
        those of a state."""
        dealing = self._dealing()
        keys = dealing.out_info
        with _traced(tell):
            asked = jax.eval_shape(self._nothing_asked, keys, self.plan.inputs)
            ins = ("chain", None, "chain")
            init = self._jit(self._init_chains, ins, "chain").lower(keys, self.plan.inputs, asked)
        return (dealing, init), asked, init.out_info[0]

    @property
    def _on_cpu(self) -> bool:
        return self.devices[0].platform == "cpu"

    def _jit(self, fn: Any, ins: tuple[str | None, ...], outs: Any) -> Any:
        """`fn` compiled; over several devices, with the marked arguments and results split by chain, or with
        all of them split by data."""
        if self._mesh is None:
            return _OnCpu(fn) if self._on_cpu else jax.jit(fn)
        if self._on_cpu:
            fn = for_cpu(fn)
        if self.shard is not None:
            leading = tuple(_LEADING[i] for i in ins)
            return _Partitioned(fn, leading, _LEADING_OUT[outs], self._by_size, self.across)
        specs: dict[str | None, Any] = {
            "chain": PartitionSpec("chain"),
            "buffers": PartitionSpec(None, "chain"),
            None: PartitionSpec(),
        }
        in_specs = tuple(specs[i] for i in ins)
        out_specs = specs[outs] if isinstance(outs, str) else tuple(specs[o] for o in outs)
        local = jax.shard_map(fn, mesh=self._mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
        shardings = tuple(NamedSharding(self._mesh, s) for s in in_specs)
        return jax.jit(local, in_shardings=shardings, compiler_options=RIGHT)

    def placed(self, tree: Any, by_chain: bool) -> Any:
        """`tree` where the programs want it; moves nothing on a single device."""
        if self._mesh is None:
            return tree
        if self.across:
            everywhere = NamedSharding(self._mesh, PartitionSpec())
            return jax.tree.map(
                lambda v, part: _shared(v, everywhere if by_chain else part), tree, self._by_size(tree, 0)
            )
        if self.shard is not None:
            return jax.device_put(tree, self._by_size(tree, 1 if by_chain else 0))
        spec = PartitionSpec("chain") if by_chain else PartitionSpec()
        return jax.device_put(tree, NamedSharding(self._mesh, spec))

    def _by_size(self, tree: Any, leading: int) -> Any:
        """For each array, where its parts are: split along its first axis of the plate's size, if it has one
        after `leading` axes of steps and chains, and along that of chains over groups of devices; whole on
        every device otherwise."""
        mesh = self._mesh
        assert mesh is not None

        def of(leaf: Any) -> NamedSharding:
            axes = [a for a, n in enumerate(np.shape(leaf)) if a >= leading and n == self.shard]
            names: list[str | None] = [None] * leading
            names[-1:] = [self._groups] * bool(leading)
            names += [*[None] * (axes[0] - leading), "data"] if axes else []
            return NamedSharding(mesh, PartitionSpec(*names) if any(names) else PartitionSpec())

        return jax.tree.map(of, tree)

    def _keys(self, key: Any, path: Sequence[int] = ()) -> Any:
        """The chains' keys: those of `key`, with the numbers of `path` folded in one after the other. Only
        after `compile`."""
        numbers = np.zeros(_LONGEST_PATH, np.uint32)
        numbers[: len(path)] = path
        return self.placed(self._programs["keys"](key, numbers, np.int32(len(path))), by_chain=True)

    def _dealing(self) -> Any:
        """The program behind `_keys`, to be compiled: by themselves, JAX's functions of keys are one each."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        numbers, count = jax.ShapeDtypeStruct((_LONGEST_PATH,), np.uint32), jax.ShapeDtypeStruct((), np.int32)
        return jax.jit(self._dealt).lower(key, numbers, count)

    def _dealt(self, key: Any, path: Any, count: Any) -> Any:
        key = jax.lax.fori_loop(0, count, lambda i, k: jax.random.fold_in(k, path[i]), key)
        first, total = self.share
        return jax.random.split(key, total)[first : first + self.chains]

    def init(
        self,
        key: Any,
        given: Mapping[str, Any] | None = None,
        radius: float = RADIUS,
        prior: bool = False,
        path: Sequence[int] = (),
    ) -> tuple[Any, Any]:
        """Initial state of all chains, leading axis chain, and the chains' logdensity where the state of no
        block tells it.

        `given` are constrained values `[chain, *shape]` of any of the latent sites; the others start as
        `first_values` says: within `radius` of 0 in unconstrained space, or from their `prior`. The numbers
        of `path` are folded into `key`.
        """
        keys, inputs = self._keys(key, path), self.placed(self.plan.inputs, by_chain=False)
        arguments = keys, inputs, self.placed(self._asked(given or {}, radius), by_chain=True)
        if prior and "init from priors" not in self._programs:  # seldom wanted
            program = self._jit(partial(self._init_chains, prior=True), ("chain", None, "chain"), "chain")
            with handlers_alone:
                lowered = program.lower(*arguments)
            self._programs["init from priors"] = compiled(lowered, quickly=self._on_cpu)
        return self._programs["init from priors" if prior else "init"](*arguments)

    def _asked(self, given: Mapping[str, Any], radius: float) -> Asked:
        shapes = self._programs["asked"].values
        # NumPy's, as JAX compiles a program for every kind of array that it fills
        values = {
            n: np.asarray(given[n], s.dtype) if n in given else np.zeros(s.shape, s.dtype)
            for n, s in shapes.items()
        }
        use = {n: np.full(self.chains, n in given) for n in shapes}
        return Asked(values, use, np.full(self.chains, radius, np.float32))

    def _nothing_asked(self, keys: Any, inputs: Any) -> Asked:
        """What `init` is asked for where nothing is: the shapes of it all."""
        one = jax.vmap(lambda k: first_values(self.kernel, k, {INPUTS: inputs}, None)[0], axis_name=AXIS)
        values = one(keys)
        chains = self.chains
        use = {n: jnp.zeros(chains, bool) for n in values}
        return Asked(values, use, jnp.zeros(chains, jnp.float32))

    def constrained(self, state: Any) -> dict[str, Any]:
        """The values of the kernel's latent sites in a state, `[chain, *shape]`."""
        return self._of_state("constrained", self._constrained, state)

    def term_sums(self, state: Any) -> dict[str, Any]:
        """What the terms that updates are derived from add up to in a state, by statement, `[chain]`."""
        return self._of_state("term sums", self._term_sums, state)

    def _constrained(self, state: Any, inputs: Any) -> dict[str, Any]:
        kwargs = {INPUTS: inputs}
        return jax.vmap(lambda s: self.kernel.get_constrain_fn((), kwargs)(s.z))(state)

    def _term_sums(self, state: Any, inputs: Any) -> dict[str, Any]:
        density = self.plan.density
        assert density is not None

        def sums(values: Mapping[str, Any]) -> dict[str, Any]:
            known = density.packed(values)
            evaluator = density.evaluator({n: known[n] for n in density.latent_vars}, inputs["data"])
            found: dict[str, list[Term]] = {}
            for term in density.terms:
                found.setdefault(term.origin, []).append(term)
            return {n: summed(terms, evaluator) for n, terms in found.items()}

        return jax.vmap(sums)(self._constrained(state, inputs))

    def _of_state(self, name: str, fn: Callable[[Any, Any], Any], state: Any) -> Any:
        """`fn` of a state and the inputs, by a program that is kept under a name."""
        state = self._dealt_out(state)
        return self._kept(name, fn, state)(state, self.placed(self.plan.inputs, by_chain=False))

    def _kept(self, name: str, fn: Callable[[Any, Any], Any], state: Any) -> Any:
        with self._compiling:
            if name not in self._programs:
                program = self._jit(fn, ("chain", None), "chain")
                with handlers_alone:
                    lowered = program.lower(state, self.plan.inputs)
                self._programs[name] = compiled(lowered, quickly=self._on_cpu)
        return self._programs[name]

    def chosen(self, chains: np.ndarray, new: Any, old: Any) -> Any:
        """The state `new` in the marked chains `[chain]`, `old` in the others. Only after `compile`."""
        if chains.all() or not chains.any():
            return new if chains.any() else old
        marked = self.placed(np.asarray(chains, bool), by_chain=True)
        new, old = self._dealt_out(new), self._dealt_out(old)
        return self._choosing(marked, new, old)(marked, new, old)

    def _choosing(self, chains: Any, new: Any, old: Any) -> Any:
        """The program behind `chosen`: one, where JAX would compile one for arrays of every shape."""
        with self._compiling:
            if "chosen" not in self._programs:
                program = self._jit(in_marked, ("chain", "chain", "chain"), "chain")
                lowered = program.lower(chains, new, old)
                self._programs["chosen"] = compiled(lowered, quickly=self._on_cpu)
        return self._programs["chosen"]

    def gone_to(self, state: Any, source: np.ndarray) -> Any:
        """The state with each chain at the place of that in `source` `[chain]`; what is random of a chain
        stays its own."""

        def there(a: Any) -> Any:
            if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
                return a
            # by NumPy, as JAX compiles a program for arrays of every shape
            return np.asarray(a)[source] if self._mesh is None else a[source]

        return self.placed(jax.tree.map(there, state), by_chain=True)

    @property
    def sites(self) -> tuple[str, ...]:
        """The kernel's latent sites. Only after `compile`."""
        return tuple(self._programs["asked"].values)

    @property
    def elements(self) -> int:
        """How many numbers of one chain its log density is a density of: those of its latent sites, but for
        what is integrated out of the target of gradients. Only after `compile`."""
        target = next((b for b in self.plan.blocks if b.kernel in GRADIENTS), None)
        shapes = self._programs["asked"].values.items()
        gone = () if target is None else target.eliminated
        return sum(int(np.prod(s.shape[1:], dtype=np.int64)) for n, s in shapes if n not in gone)

    @property
    def window_ends(self) -> tuple[int, ...]:
        """After how many steps the chains learn from each other: no chunk may go on beyond one of them."""
        return self.kernel.window_ends(self.warmup)

    def depart(
        self, state: Any, steps: int, warming: bool, done: int | None = None, warmup: int | None = None
    ) -> Flight:
        """Begin `steps` steps (at most `capacity`) in every chain.

        `done` of a run led to `state`: where they end a window of warm-up, the chains learn from each other
        first. `warmup`: how long that is, where it is shorter than it was laid out for.
        """
        warmup = self.warmup if warmup is None else warmup
        if done is not None and warmup != self.warmup and done + FINAL == warmup:
            state = self.kernel.ending(state, warmup)
        if done is not None and done < warmup and done in self.window_ends:
            state = self._pooled(state)
        return self._begin(state, steps, warming)

    def _begin(self, state: Any, steps: int, warming: bool) -> Flight:
        # NumPy's, as JAX would compile a program to convert each
        count, sweeps = np.int32(steps), np.int32(1 if warming else self.thin)
        arguments = self.placed((self.plan.inputs, count, sweeps), by_chain=False)
        program = self._programs["advance"]
        state = self._dealt_out(state)
        return Flight(lambda: program(state, *arguments), steps, warming)

    def _dealt_out(self, state: Any) -> Any:
        """The state with its empty arrays marked as split by chain, which XLA does not keep of them."""
        if self._mesh is None or self.shard is not None:
            return state
        by_chain = NamedSharding(self._mesh, PartitionSpec("chain"))
        return jax.tree.map(lambda v: v if v.size else jax.device_put(v, by_chain), state)

    def _pooled(self, state: Any) -> Any:
        """The state after the chains have learnt from each other."""
        inputs = self.placed(self.plan.inputs, by_chain=False)
        return self.placed(self._pooling(state)(state, inputs), by_chain=True)

    def _pooling(self, state: Any) -> Any:
        """The program behind `_pooled`."""
        inputs = self.placed(self.plan.inputs, by_chain=False)
        with self._compiling:
            if "pool" not in self._programs:  # XLA's partitioner brings the draws of several devices together
                program = _OnCpu(self._pool_chains) if self._on_cpu else jax.jit(self._pool_chains)
                if self.across:
                    program = self._jit(self._pool_chains, ("chain", None), "chain")
                self._programs["pool"] = compiled(program.lower(state, inputs), quickly=self._on_cpu)
        return self._programs["pool"]

    def _pool_chains(self, state: Any, inputs: Any) -> Any:
        return self.kernel.pool(state, (), {INPUTS: inputs})

    def _init_chains(self, keys: Any, inputs: Any, asked: Asked, prior: bool = False) -> Any:
        kernel, kwargs = self.kernel, {INPUTS: inputs}

        def start(key: Any, asked: Asked) -> Any:
            _, native = first_values(kernel, key, kwargs, asked, prior)
            state = kernel.init(key, self.warmup, native, (), kwargs)
            return state, logdensity_at_start(kernel, state, kwargs)

        # named as where they step, or JAX would trace again what both call
        return jax.vmap(start, axis_name=AXIS)(keys, asked)

    def _values(self, state: Any, inputs: Any) -> Any:
        if self.plan.hidden:
            found = jax.vmap(lambda s: forward(self.kernel, self.plan, s, {INPUTS: inputs}))(state)
        else:
            found = jax.vmap(lambda s: self.kernel.postprocess_fn((), {INPUTS: inputs})(s.z))(state)
        return {
            n: once_around(v, by=jnp) if n in self._angles else v
            for n, v in found.items()
            if n in self.plan.sites
        }

    @cached_property
    def _angles(self) -> frozenset[str]:
        """The unbounded angles of `CircularReparam`: in which turn they are, no density tells."""
        sites = self.plan.sites
        improper = {n for n, s in sites.items() if s.role == "latent" and s.fn_name == "ImproperUniform"}
        return frozenset(n for n in improper if n.endswith(_TURNS) and n.removesuffix(_TURNS) in sites)

    def _records(self, state: Any, inputs: Any) -> Any:
        """What is recorded of a state: values of sites, statistics of blocks, arrays `[chain, …]`."""
        return self._values(state, inputs), block_stats(state.block_states)

    def _advance_chains(self, state: Any, inputs: Any, steps: Any, sweeps: Any) -> Any:
        sample = jax.vmap(lambda s: self.kernel.sample(s, (), {INPUTS: inputs}), axis_name=AXIS)
        records = jax.jit(self._records)  # traced once

        def gathered(stats: Any, more: Any) -> Any:
            def latest(before: Any, now: Any) -> Any:
                return now

            return {n: _GATHERED.get(n.partition(".")[2], latest)(stats[n], v) for n, v in more.items()}

        def step(s: Any) -> Any:
            s = sample(s)
            if self.thin == 1:
                return s, records(s, inputs)

            def again(_: Any, carry: Any) -> Any:
                s, stats = carry
                s = sample(s)
                return s, gathered(stats, block_stats(s.block_states))

            s, stats = jax.lax.fori_loop(1, sweeps, again, (s, block_stats(s.block_states)))
            return s, (self._values(s, inputs), stats)

        shapes = jax.eval_shape(records, state, inputs)
        buffers = jax.tree.map(lambda a: jnp.zeros((self.capacity, *a.shape), a.dtype), shapes)

        def body(carry: Any) -> Any:
            i, s, bufs = carry
            s, out = step(s)

            def put(buffer: Any, value: Any) -> Any:
                return jax.lax.dynamic_update_index_in_dim(buffer, value, i, 0)

            return i + 1, s, jax.tree.map(put, bufs, out)

        start = (jnp.zeros((), jnp.int32), state, buffers)
        _, state, buffers = jax.lax.while_loop(lambda carry: carry[0] < steps, body, start)
        return state, buffers


# tells the key of predictions from those that kernels make of the same one
_PREDICTIONS = 0x7072


def forward(kernel: Any, plan: Plan, state: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded values of one chain, by site: the kernel's, and everything that follows from them by the
    model as written. A function of the state alone, so the cut of a run does not matter."""
    values = dict(kernel.get_constrain_fn((), dict(kwargs))(state.z))
    for group, members in plan.stacked.items():
        if group in values:
            stack = values.pop(group)
            values.update({m: stack[i] for i, m in enumerate(members)})
    model = handlers.substitute(plan.model, data=values)
    traced = handlers.trace(handlers.seed(model, _key(state))).get_trace(**kwargs)
    out = {}
    for n in plan.sites:
        if n in traced:
            out[n] = jnp.asarray(traced[n]["value"])
        else:
            out[n] = jnp.stack([jnp.asarray(traced[m]["value"]) for m in plan.stacked[n]])
    return out


def _key(state: Any) -> Any:
    """A random key that changes with every step: of the first block that has one."""
    for leaf in jax.tree.leaves(state.block_states):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) and jnp.ndim(leaf) == 0:
            return jax.random.fold_in(leaf, _PREDICTIONS)
    raise ModelError(
        "predictions are drawn by a random key of the kernels, and no block of this schedule keeps one in "
        "its state; name the predictions in the schedule, with a kernel of their own"
    )
