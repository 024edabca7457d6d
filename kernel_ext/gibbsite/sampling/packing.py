"""Small arrays that travel as one: every array that a loop writes, or that leaves a device, has its price."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# an element of a joined row is found by comparing with the ends of the parts, so rows are short
_MOST_PER_ROW = 256
_SMALL = 64
_WORDS = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


class Packing:
    """Of a tree of arrays `[chain, …]`, those with few numbers per chain are joined into rows of bits
    `[chain, width]`, by the size of their numbers; booleans become 32-bit numbers. `like` tells shapes and
    dtypes; the number of chains may differ."""

    def __init__(self, like: Any):
        leaves, self._tree = jax.tree.flatten(like)
        self._shapes = [leaf.shape[1:] for leaf in leaves]
        self._dtypes = [np.dtype(leaf.dtype) for leaf in leaves]
        self._rows: list[list[int]] = []
        open_rows: dict[int, int] = {}
        for i, dtype in enumerate(self._dtypes):
            bytes_each = 4 if dtype.kind == "b" else dtype.itemsize
            if dtype.kind not in "biuf" or bytes_each not in _WORDS or self._size(i) > _SMALL:
                continue
            row = open_rows.get(bytes_each)
            if row is None or sum(map(self._size, self._rows[row])) + self._size(i) > _MOST_PER_ROW:
                row = open_rows[bytes_each] = len(self._rows)
                self._rows.append([])
            self._rows[row].append(i)
        packed = {i for row in self._rows for i in row}
        self._others = [i for i in range(len(leaves)) if i not in packed]

    def _size(self, i: int) -> int:
        return int(np.prod(self._shapes[i], dtype=np.int64))

    def packed(self, tree: Any) -> list[Any]:
        """The rows, then the arrays that are in none."""
        leaves = self._tree.flatten_up_to(tree)

        def words(i: int) -> Any:
            flat = leaves[i].reshape(leaves[i].shape[0], -1)
            if flat.dtype == bool:
                flat = flat.astype(jnp.uint32)
            return jax.lax.bitcast_convert_type(flat, _WORDS[flat.dtype.itemsize])

        rows = [jnp.concatenate([words(i) for i in row], axis=1) for row in self._rows]
        return rows + [leaves[i] for i in self._others]

    def unpacked(self, arrays: list[np.ndarray]) -> Any:
        """The tree of arrays `[step, chain, …]` from rows and arrays with as many steps; views where that can
        be."""
        leaves: dict[int, np.ndarray] = dict(zip(self._others, arrays[len(self._rows) :], strict=True))
        for row, bits in zip(self._rows, arrays, strict=False):
            ends = np.cumsum([self._size(i) for i in row])[:-1]
            for i, part in zip(row, np.split(bits, ends, axis=2), strict=True):
                numbers = part.astype(bool) if self._dtypes[i].kind == "b" else part.view(self._dtypes[i])
                leaves[i] = numbers.reshape(*bits.shape[:2], *self._shapes[i])
        return self._tree.unflatten([leaves[i] for i in range(len(leaves))])
