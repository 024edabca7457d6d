"""Write one element of a jaxpr's array as the expression that a person would have written.

`mu[z]` reaches the jaxpr as a comparison, an addition, a selection and a gather; printed for the element at
`n` it is `mu[z[n]]` again. What has no short form becomes `f(…)` of the sites that it depends on.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.notation.notation import TEXT, Notation
from gibbsite.trace.jaxpr.compat import Literal

_ATOM, _POWER, _PRODUCT, _SUM, _COMPARE = 4, 3, 2, 1, 0
_INFIX = {
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
    "lt": ("<", _COMPARE),
    "le": ("<=", _COMPARE),
    "gt": (">", _COMPARE),
    "ge": (">=", _COMPARE),
    "eq": ("==", _COMPARE),
    "ne": ("!=", _COMPARE),
}
_PASS = frozenset(
    "convert_element_type copy copy_p stop_gradient reduce_precision pvary optimization_barrier".split()
)
_CALLS = {"logistic": "sigmoid", "reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min"}
_LONG = 72


def shifted(index: str, by: int) -> str:
    """The index `index + by`, written tidily."""
    if by == 0:
        return index
    if re.fullmatch(r"-?\d+", index):
        return str(int(index) + by)
    match = re.fullmatch(r"(.*?)([+-]\d+)", index)
    base, before = (match.group(1), int(match.group(2))) if match else (index, 0)
    total = before + by
    return base if total == 0 else f"{base}{total:+d}"


_FEW = 4  # a constant vector of so many elements is written out


class Expression:
    """Prints elements of a density's arrays in one notation."""

    def __init__(self, density: Density, notation: Notation = TEXT):
        self._density = density
        self.notation = notation
        self._names = {v: n for n, v in density.latent_vars.items()}
        named = zip(density.data_vars, density.arguments.names, strict=True)
        self._names.update({v: n for v, n in named})
        for kind in ("deterministic",):
            for name, atom in density.outputs[kind].items():
                if not isinstance(atom, Literal):
                    self._names.setdefault(atom, name)
        consts = zip(density.closed.jaxpr.constvars, density.closed.consts, strict=True)
        self._consts = dict(consts)

    def of(self, atom: Any, index: Sequence[str]) -> str:
        """The element of `atom` at `index` (one string per axis; ":" for a whole axis)."""
        return self._write(atom, tuple(index), 0)[0]

    def definition(self, atom: Any, index: Sequence[str]) -> str:
        """As `of`, for an array that has a name itself: what it is computed from."""
        if isinstance(atom, Literal) or atom not in self._density.producer:
            return self.of(atom, index)
        text, _ = self._equation(self._density.producer[atom], tuple(index), 0)
        return text if len(text) <= _LONG else self._short(atom)

    def _write(self, atom: Any, index: tuple[str, ...], depth: int) -> tuple[str, int]:
        if isinstance(atom, Literal):
            return _number(atom.val), _ATOM
        if atom in self._names:
            base = self.notation.name(self._names[atom])
            shown = index
            while shown and shown[-1] == ":":
                shown = shown[:-1]
            return self.notation.subscript(base, shown), _ATOM
        if atom in self._consts:
            return self._constant(np.asarray(self._consts[atom]), index), _ATOM
        text, level = self._equation(self._density.producer[atom], index, depth)
        if len(text) > _LONG:
            return self._short(atom), _ATOM
        return text, level

    def _constant(self, value: np.ndarray, index: tuple[str, ...]) -> str:
        """A number, a short list, or `const`, which shows its index where sites choose from it."""
        if value.size == 1:
            return _number(value)
        if index == (":",) and value.size <= _FEW:
            return f"[{', '.join(map(_number, value))}]"
        known = set(map(str, self._names.values()))
        chosen = any(known.intersection(re.findall(r"\w+", i)) for i in index)
        return self.notation.subscript("const", index) if chosen else "const"

    def _short(self, atom: Any) -> str:
        sites = sorted(self._density.maps.latents(atom), key=list(self._density.sites).index)
        return self.notation.call("f", ", ".join(map(self.notation.name, sites)) or "data")

    def _in(self, atom: Any, index: Sequence[str], depth: int, level: int) -> str:
        text, own = self._write(atom, tuple(index), depth + 1)
        return text if own >= level else f"({text})"

    def _equation(self, eqn: Any, index: tuple[str, ...], depth: int) -> tuple[str, int]:
        name = eqn.primitive.name
        if depth > 60:
            return self._short(eqn.outvars[0]), _ATOM
        moved = self._structural(eqn, index)
        if moved is not None:
            return self._write(moved[0], moved[1], depth + 1)
        operands = [(a, _aligned(a, index)) for a in eqn.invars]
        if name in _PASS and len(operands) == 1:
            return self._write(operands[0][0], operands[0][1], depth + 1)
        if name in _INFIX:
            op, level = _INFIX[name]
            plain = [self._write(*o, depth + 1) for o in operands]
            if (name, plain[0][0]) in (("mul", "1"), ("add", "0")):
                return plain[1]
            if (name, plain[1][0]) in (("mul", "1"), ("div", "1"), ("add", "0"), ("sub", "0")):
                return plain[0]
            left = self._in(*operands[0], depth, level)
            right = self._in(*operands[1], depth, level + (name in ("sub", "div")))
            return self.notation.infix(left, op, right), level
        if name == "neg":
            return "-" + self._in(*operands[0], depth, _PRODUCT), _SUM
        if name in ("integer_pow", "square"):
            power = str(eqn.params.get("y", 2))
            return self.notation.power(self._in(*operands[0], depth, _ATOM), power), _POWER
        if name == "pow":
            base, exponent = (self._in(*o, depth, _ATOM) for o in operands)
            return self.notation.power(base, exponent), _POWER
        if name == "select_n":
            return self._selection(eqn, operands, depth)
        if name == "iota":
            return index[eqn.params["dimension"]], _SUM
        if name == "dot_general":
            left, right = (self._in(a, (":",) * len(a.aval.shape), depth, _PRODUCT) for a in eqn.invars[:2])
            inside = [i for i in index if i != ":"]
            text = self.notation.infix(left, "@", right)
            return self.notation.subscript(f"({text})", inside) if inside else text, _ATOM
        if name.startswith("reduce_") or name in ("cumsum", "cumprod", "sort", "cumlogsumexp"):
            operand = eqn.invars[0]
            return self.notation.call(
                _CALLS.get(name, name), self._in(operand, (":",) * len(operand.aval.shape), depth, 0)
            ), _ATOM
        args = ", ".join(self._in(a, i, depth, 0) for a, i in operands if len(i) == len(a.aval.shape))
        return self.notation.call(_CALLS.get(name, name), args), _ATOM

    def _selection(self, eqn: Any, operands: Any, depth: int) -> tuple[str, int]:
        (test, at), *cases = operands
        first: Any = cases[0]
        if len(cases) == 2 and self._is_wrapped_index(test, eqn.invars[1], eqn.invars[2]):
            return self._write(first[0], first[1], depth + 1)
        texts = [self._in(a, i, depth, 0) for a, i in cases]
        if len(cases) == 2:
            condition = self._in(test, at, depth, 0)
            return self.notation.call("where", f"{condition}, {texts[1]}, {texts[0]}"), _ATOM
        which = self._in(test, at, depth, 0)
        return self.notation.call("choose", ", ".join([which, *texts])), _ATOM

    def _is_wrapped_index(self, test: Any, plain: Any, wrapped: Any) -> bool:
        """The idiom that turns a negative index into one from the end."""
        if isinstance(test, Literal) or isinstance(wrapped, Literal):
            return False
        lt, add = self._density.producer.get(test), self._density.producer.get(wrapped)
        return (
            lt is not None
            and add is not None
            and (lt.primitive.name, add.primitive.name) == ("lt", "add")
            and _same(lt.invars[0], plain)
            and _same(add.invars[0], plain)
        )

    def _structural(self, eqn: Any, index: tuple[str, ...]) -> tuple[Any, tuple[str, ...]] | None:
        """The operand element that an output element copies, for primitives that only rearrange."""
        if not eqn.invars:
            return None
        name, params, x = eqn.primitive.name, eqn.params, eqn.invars[0]
        if name == "broadcast_in_dim":
            shape = np.shape(x.val) if isinstance(x, Literal) else x.aval.shape
            dims = params["broadcast_dimensions"]
            out = eqn.outvars[0].aval.shape
            return x, tuple(index[d] if shape[a] == out[d] else "0" for a, d in enumerate(dims))
        if name == "squeeze":
            gone = {d % len(x.aval.shape) for d in params["dimensions"]}
            rest = iter(index)
            return x, tuple("0" if a in gone else next(rest) for a in range(len(x.aval.shape)))
        if name == "transpose":
            return x, tuple(index[params["permutation"].index(a)] for a in range(len(index)))
        if name == "slice" and all(s == 1 for s in params["strides"] or (1,)):
            starts = params["start_indices"]
            return x, tuple(i if i == ":" else shifted(i, s) for i, s in zip(index, starts, strict=True))
        if name == "reshape":
            return self._reshaped(x, index, tuple(eqn.outvars[0].aval.shape))
        if name == "concatenate":
            return _widest_piece(eqn, index)
        if name == "gather":
            return self._gathered(eqn, index)
        if name == "dynamic_slice":
            starts = [self.of(s, ()) for s in eqn.invars[1:]]
            sizes = params["slice_sizes"]
            full = x.aval.shape
            return x, tuple(
                i if sizes[a] == full[a] else (starts[a] if sizes[a] == 1 else f"{starts[a]}+{i}")
                for a, i in enumerate(index)
            )
        return None

    def _reshaped(self, x: Any, index: tuple[str, ...], out: tuple[int, ...]) -> Any:
        shape = tuple(x.aval.shape)
        if [n for n in shape if n != 1] != [n for n in out if n != 1]:
            return None
        real = iter(i for i, n in zip(index, out, strict=True) if n != 1)
        return x, tuple("0" if n == 1 else next(real) for n in shape)

    def _gathered(self, eqn: Any, index: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
        operand, indices = eqn.invars
        dims = eqn.params["dimension_numbers"]
        batch = [i for a, i in enumerate(index) if a not in dims.offset_dims]
        offsets = iter([index[a] for a in dims.offset_dims])
        out = []
        for d in range(len(operand.aval.shape)):
            if d in dims.operand_batching_dims:
                axis = dims.start_indices_batching_dims[dims.operand_batching_dims.index(d)]
                out.append(batch[axis])
            elif d in dims.start_index_map:
                k = dims.start_index_map.index(d)
                whole = eqn.params["slice_sizes"][d] == operand.aval.shape[d]
                kept = d not in dims.collapsed_slice_dims and next(offsets)
                text = kept if whole and kept else self.of(indices, (*batch, str(k)))
                out.append(str(text))
            elif d in dims.collapsed_slice_dims:
                out.append("0")
            else:
                out.append(next(offsets))
        return operand, tuple(out)


def _same(a: Any, b: Any) -> bool:
    """Whether two atoms are one variable, or literals of one value."""
    both = isinstance(a, Literal) and isinstance(b, Literal)
    return bool(np.all(a.val == b.val)) if both else a is b


def _aligned(atom: Any, index: tuple[str, ...]) -> tuple[str, ...]:
    shape = np.shape(atom.val) if isinstance(atom, Literal) else tuple(atom.aval.shape)
    return tuple("0" if n == 1 else i for n, i in zip(shape, index, strict=False)) if shape else ()


def _widest_piece(eqn: Any, index: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    axis = eqn.params["dimension"]
    sizes = [a.aval.shape[axis] for a in eqn.invars]
    at = index[axis]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pick = int(np.argmax(sizes))
    if re.fullmatch(r"\d+", at):
        pick = int(np.searchsorted(starts, int(at), side="right")) - 1
    elif at == ":" and len(eqn.invars) > 1:
        pick = int(np.argmax(sizes))
    moved = at if at == ":" else shifted(at, -int(starts[pick]))
    piece = eqn.invars[pick]
    local = (*index[:axis], "0" if sizes[pick] == 1 else moved, *index[axis + 1 :])
    return piece, local


def _number(value: Any) -> str:
    scalar = np.asarray(value).reshape(-1)[0]
    if np.asarray(scalar).dtype.kind in "iub":
        return str(scalar)
    return f"{float(scalar):.6g}"
