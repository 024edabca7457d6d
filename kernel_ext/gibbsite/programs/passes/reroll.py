"""Re-roll a model that loops in Python over sites: many alike equations become one over an array.

`for t in range(T): s[t] ~ Categorical(P[s[t-1]])` reaches the jaxpr as T copies of the same few equations.
Every equation gets a key from its structure: its primitive, its parameters and the keys of its operands, down
to the leaves, of which members of one group of sites count as equal, as do literals and slices of one array
that differ in where they start. Equations of equal keys are replaced by one batched equation, which reads the
batches of its operands at known positions; the members become slices of one array site. The result is an
ordinary flat jaxpr, so index maps, colours and chains work as they do for a model written with arrays.

The idea is that of superword-level parallelism, Larsen and Amarasinghe (2000), "Exploiting superword level
parallelism with multimedia instruction sets"; a key contains the keys it reads, so no batch reads itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    JaxprEqn,
    Literal,
    Var,
    bind_equation,
    shape_of,
)
from gibbsite.programs.jaxpr.primitives import JOINS, SLICES, of_kind
from gibbsite.programs.passes.flatten import Builder, hashable
from gibbsite.programs.passes.replaced import traced

Ref = tuple[int, int, int]
"""A value among alike ones: the key of its equation, which output, which instance."""

_SMALL = 4096
_MIN_RUN = 3


@dataclass
class _Kind:
    """Alike equations, in program order, with what they read."""

    eqns: list[JaxprEqn] = field(default_factory=list)
    operands: list[list[Any]] = field(default_factory=list)
    member: bool = False
    varying: bool = False


def _params_key(eqn: JaxprEqn, sliding: bool) -> Any:
    skipped = ("start_indices", "limit_indices") if sliding else ()
    return hashable(tuple(sorted((k, v) for k, v in eqn.params.items() if k not in skipped)))


class Reroll:
    """Rewrites one flat jaxpr; `groups` gives the input variables of each group, in order."""

    def __init__(self, closed: ClosedJaxpr, groups: Mapping[str, Sequence[Var]]):
        self.closed = closed
        self.builder = Builder()
        self.inputs = {}
        self._keys: dict[Any, int] = {}
        self._kinds: dict[int, _Kind] = {}
        self._refs: dict[Any, Ref] = {}
        self._flags: dict[int, tuple[bool, bool]] = {}
        self._batches: dict[tuple[int, int], Any] = {}
        self._singles: dict[Ref, Any] = {}
        self._least = max(2, min((len(g) for g in groups.values()), default=2) // 2)
        for name, members in groups.items():
            aval = members[0].aval
            var = Var(aval.update(shape=(len(members), *aval.shape)))
            self.inputs[name] = var
            key = self._key(("group", name))
            self._flags[key] = (True, True)
            self._batches[key, 0] = var
            self._refs.update({m: (key, 0, i) for i, m in enumerate(members)})
        for var in closed.jaxpr.invars:
            if var not in self._refs:
                self.inputs[var] = self._plain(var, Var(var.aval))
        alike: dict[Any, Any] = {}  # `jnp.array([.2, .8])` in a loop is a constant of its own in every turn
        for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            numeric = var.aval.size <= _SMALL and getattr(value.dtype, "kind", "") in tuple("biuf")
            content = (str(var.aval.dtype), var.aval.shape, np.asarray(value).tobytes()) if numeric else var
            if content in alike:
                self._refs[var] = self._refs[alike[content]]
            else:
                alike[content] = var
                self._plain(var, self.builder.constant(var, value))
        for eqn in closed.jaxpr.eqns:
            self._enter(eqn)

    def _key(self, content: Any) -> int:
        return self._keys.setdefault(content, len(self._keys))

    def _plain(self, old: Any, new: Any) -> Any:
        key = self._key(("one", old))
        self._flags[key] = (False, False)
        self._refs[old] = (key, 0, 0)
        self._singles[key, 0, 0] = new
        return new

    def _enter(self, eqn: JaxprEqn) -> None:
        """Find the equation's key and count it among its kind."""
        tokens, flags = [], []
        for atom in eqn.invars:
            if isinstance(atom, Literal):
                tokens.append(("literal", str(atom.aval.dtype), shape_of(atom)))
            else:
                ref = self._refs[atom]
                tokens.append(ref[:2])
                flags.append(self._flags[ref[0]])
        member = any(m for m, _ in flags)
        constant = not flags and sum(v.aval.size for v in eqn.outvars) <= _SMALL
        sliding = of_kind(eqn, SLICES) and shape_of(eqn.invars[0]) != tuple(eqn.outvars[0].aval.shape)
        varying = member or constant or sliding or any(v for _, v in flags)
        params = _params_key(eqn, sliding)
        if not varying or params is None or eqn.effects:
            content: Any = ("one", eqn.outvars[0] if eqn.outvars else len(self._keys))
        else:
            outs = tuple((v.aval.shape, str(v.aval.dtype)) for v in eqn.outvars)
            content = (eqn.primitive, params, tuple(tokens), outs)
        key = self._key(content)
        kind = self._kinds.setdefault(key, _Kind(member=member, varying=varying))
        self._flags[key] = (member, varying)
        for o, var in enumerate(eqn.outvars):
            self._refs[var] = (key, o, len(kind.eqns))
        kind.eqns.append(eqn)
        kind.operands.append([a if isinstance(a, Literal) else self._refs[a] for a in eqn.invars])

    # emission

    def read(self, atom: Any) -> Any:
        """The new atom that stands for one atom of the old jaxpr."""
        return atom if isinstance(atom, Literal) else self._read(self._refs[atom])

    def same(self, atoms: Sequence[Any]) -> bool:
        """Whether all `atoms` are one value."""
        first = atoms[0]
        if isinstance(first, Literal):
            return all(isinstance(a, Literal) and np.array_equal(a.val, first.val) for a in atoms)
        return all(not isinstance(a, Literal) and self._refs[a] == self._refs[first] for a in atoms)

    def joined(self, atoms: Sequence[Any], ordered: bool) -> Any | None:
        """One array that holds the values of `atoms` along a new first axis, in order if asked for.

        None where their shapes differ and an order is asked for; without one, such values are summed first.
        """
        if len({shape_of(a) for a in atoms}) > 1:
            if ordered:
                return None
            sums = [self._call(jnp.sum, self.read(a))[0] for a in atoms]
            return self._call(_stacked, *sums)[0]
        runs: list[tuple[Any, list[Any]]] = []
        places: dict[Any, int] = {}
        for atom in atoms:
            ref = None if isinstance(atom, Literal) else self._refs[atom]
            kind = None if ref is None else ref[:2]
            if kind in places and (not ordered or places[kind] == len(runs) - 1):
                runs[places[kind]][1].append(atom if ref is None else ref[2])
            else:
                places[kind] = len(runs)
                runs.append((kind, [atom if ref is None else ref[2]]))
        pieces = []
        for kind, items in runs:
            if kind is None:
                value = np.stack([np.asarray(a.val, a.aval.dtype) for a in items])
                pieces += self._call(lambda v=value: jnp.asarray(v))
            else:
                pieces.append(self._taken(kind[0], kind[1], items))
        return pieces[0] if len(pieces) == 1 else self._call(lambda *xs: jnp.concatenate(xs), *pieces)[0]

    def reshaped(self, atom: Any, shape: Sequence[int]) -> Any:
        """An array of the rewritten program in another shape."""
        return self._call(lambda x: jnp.reshape(x, shape), atom)[0]

    def _read(self, ref: Ref) -> Any:
        key, o, i = ref
        self._emit(key)
        if ref not in self._singles:
            batch = self._batches[key, o]
            self._singles[ref] = self._call(lambda b: lax.index_in_dim(b, i, 0, keepdims=False), batch)[0]
        return self._singles[ref]

    def _call(self, fn: Any, *atoms: Any) -> list[Any]:
        """Append the equations of `fn(*atoms)`; returns its outputs as a list."""
        return self.builder.splice(traced(fn, atoms), atoms)

    def _taken(self, key: int, o: int, positions: Sequence[int]) -> Any:
        """The values of one kind at `positions`, along a new first axis."""
        self._emit(key)
        at = np.asarray(positions)
        if (key, o) not in self._batches:
            members = [self._read((key, o, int(i))) for i in at]
            return self._call(_stacked, *members)[0]
        batch = self._batches[key, o]
        n = shape_of(batch)[0]
        if np.array_equal(at, np.arange(n)):
            return batch
        return self._call(lambda b: _along_first(b, at), batch)[0]

    def _emit(self, key: int) -> None:
        """Append the equations of a kind, and of what it reads, unless they are there already."""
        stack = [key]
        while stack:
            top = stack[-1]
            kind = self._kinds.get(top)
            if kind is None or self._done(top, kind):
                stack.pop()
                continue
            needs = {r[0] for ops in kind.operands for r in ops if isinstance(r, tuple)}
            missing = [k for k in needs if k in self._kinds and not self._done(k, self._kinds[k])]
            if missing:
                stack += sorted(missing)
                continue
            stack.pop()
            if len(kind.eqns) < (2 if kind.member else self._least) or not kind.varying:
                self._one_by_one(top, kind)
            else:
                self._batched(top, kind)

    def _done(self, key: int, kind: _Kind) -> bool:
        return not kind.eqns[0].outvars or (key, 0) in self._batches or (key, 0, 0) in self._singles

    def _one_by_one(self, key: int, kind: _Kind) -> None:
        for i, (eqn, operands) in enumerate(zip(kind.eqns, kind.operands, strict=True)):
            if of_kind(eqn, JOINS):
                outs = [self._concatenated(eqn, operands)]
            else:
                atoms = [self._read(r) if isinstance(r, tuple) else r for r in operands]
                outs = self.builder.equation(eqn, atoms)
            self._singles.update({(key, o, i): v for o, v in enumerate(outs)})

    def _concatenated(self, eqn: JaxprEqn, operands: list[Any]) -> Any:
        """A concatenation whose runs of consecutive instances are read as slices of their batch."""
        axis = eqn.params["dimension"]
        pieces: list[Any] = []
        start = 0
        while start < len(operands):
            stop = start + 1
            first = operands[start]
            while stop < len(operands) and isinstance(first, tuple) and first[:2] in self._batches:
                following = (first[0], first[1], first[2] + stop - start)
                if operands[stop] != following:
                    break
                stop += 1
            if stop - start >= _MIN_RUN:
                positions = range(first[2], first[2] + stop - start)
                batch = self._taken(first[0], first[1], positions)
                pieces += self._call(lambda b: _joined(b, axis), batch)
            else:
                chosen = operands[start:stop]
                pieces += [self._read(r) if isinstance(r, tuple) else r for r in chosen]
            start = stop
        return pieces[0] if len(pieces) == 1 else self.builder.equation(eqn, pieces)[0]

    def _batched(self, key: int, kind: _Kind) -> None:
        eqn, n = kind.eqns[0], len(kind.eqns)
        atoms: list[Any] = []
        axes: list[int | None] = []
        for slot in range(len(eqn.invars)):
            atom, axis = self._operand([ops[slot] for ops in kind.operands])
            atoms.append(atom)
            axes.append(axis)
        sliding = of_kind(eqn, SLICES)
        fn = _sliced(kind.eqns, axes[0]) if sliding else _mapped(eqn, axes, n)
        outs = self._call(fn, *atoms)
        self._batches.update({(key, o): v for o, v in enumerate(outs)})

    def _operand(self, refs: list[Any]) -> tuple[Any, int | None]:
        """One operand of all instances: an atom, and the axis along which instances stand (None: shared)."""
        first = refs[0]
        if isinstance(first, Literal):
            values = [np.asarray(r.val, r.aval.dtype) for r in refs]
            if all(np.array_equal(v, values[0], equal_nan=v.dtype.kind == "f") for v in values[1:]):
                return first, None
            stacked = np.stack(values)
            return self._call(lambda: jnp.asarray(stacked))[0], 0
        positions = [r[2] for r in refs]
        if all(p == positions[0] for p in positions):
            return self._read(first), None
        return self._taken(first[0], first[1], positions), 0


def _along_first(x: Any, at: np.ndarray) -> Any:
    """`x[at]`, as a slice where the positions are evenly spaced."""
    step = int(at[1] - at[0]) if len(at) > 1 else 1
    if step > 0 and np.array_equal(at, at[0] + step * np.arange(len(at))):
        return lax.slice_in_dim(x, int(at[0]), int(at[-1]) + 1, step, 0)
    return jnp.take(x, jnp.asarray(at, jnp.int32), axis=0, mode="clip")


def _stacked(*xs: Any) -> Any:
    return jnp.concatenate([x[None] for x in xs])


def _joined(batch: Any, axis: int) -> Any:
    """The instances along axis 0, put one after another along `axis` of an instance."""
    moved = jnp.moveaxis(batch, 0, axis)
    shape = (*moved.shape[:axis], moved.shape[axis] * moved.shape[axis + 1], *moved.shape[axis + 2 :])
    return moved.reshape(shape)


def _mapped(eqn: JaxprEqn, axes: Sequence[int | None], n: int) -> Any:
    def run(*xs: Any) -> list[Any]:
        return bind_equation(eqn, xs)

    if all(a is None for a in axes):
        return lambda *xs: [jnp.broadcast_to(v[None], (n, *v.shape)) for v in run(*xs)]
    return jax.vmap(run, in_axes=tuple(axes), out_axes=0, axis_size=n)


def _sliced(eqns: Sequence[JaxprEqn], axis: int | None) -> Any:
    """Many slices of one array, or one slice of each of many, along a new first axis."""
    starts = np.array([e.params["start_indices"] for e in eqns])
    shape = tuple(eqns[0].outvars[0].aval.shape)
    strides = eqns[0].params["strides"]
    if (starts == starts[0]).all():
        return _mapped(eqns[0], (axis,), len(eqns))
    moving = [a for a in range(starts.shape[1]) if (starts[:, a] != starts[0, a]).any()]
    if axis is None and len(moving) == 1 and shape[moving[0]] == 1:
        (m,) = moving

        def gathered(x: Any) -> list[Any]:
            low = [0 if a == m else int(s) for a, s in enumerate(starts[0])]
            high = [
                n if a == m else int(e)
                for a, (n, e) in enumerate(zip(x.shape, eqns[0].params["limit_indices"], strict=True))
            ]
            steps = None if strides is None else [1 if a == m else s for a, s in enumerate(strides)]
            rows = jnp.moveaxis(lax.slice(x, low, high, steps), m, 0)
            return [jnp.expand_dims(_along_first(rows, starts[:, m]), m + 1)]

        return gathered
    sizes = tuple(
        int(e) - int(s)
        for s, e in zip(eqns[0].params["start_indices"], eqns[0].params["limit_indices"], strict=True)
    )

    def windows(x: Any) -> list[Any]:
        def one(y: Any, at: Any) -> Any:
            window = lax.dynamic_slice(y, [at[a] for a in range(len(sizes))], sizes)
            return window if strides is None else window[tuple(slice(None, None, s) for s in strides)]

        return [jax.vmap(one, (axis, 0))(x, jnp.asarray(starts, jnp.int32))]

    return windows
