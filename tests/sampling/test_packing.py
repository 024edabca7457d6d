"""What is joined into rows comes back bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.sampling.packing import Packing

RNG = np.random.default_rng(0)
MADE = {
    "f4": lambda shape: RNG.normal(size=shape).astype(np.float32),
    "i4": lambda shape: RNG.integers(-(2**31), 2**31, shape).astype(np.int32),
    "u4": lambda shape: RNG.integers(0, 2**32, shape).astype(np.uint32),
    "bool": lambda shape: RNG.integers(0, 2, shape).astype(bool),
    "i1": lambda shape: RNG.integers(-128, 128, shape).astype(np.int8),
    "f8": lambda shape: RNG.normal(size=shape),
    "i8": lambda shape: RNG.integers(-(2**62), 2**62, shape),
}
SHAPES = [(), (3,), (2, 4), (0,), (64,), (65,), (5, 40)]


def there_and_back(tree, steps=3):
    """Every step packed by a compiled program, as a run does; the rows' number, and the tree of all steps."""
    packing = Packing(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), tree))
    pack = jax.jit(packing.packed)
    parts = [pack(jax.tree.map(lambda a, t=t: jnp.asarray(a[t]), tree)) for t in range(steps)]
    arrays = [np.stack([np.asarray(p[k]) for p in parts]) for k in range(len(parts[0]))]
    return arrays, packing.unpacked(arrays)


@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize("kinds", [["f4", "i4", "u4", "bool", "i1"], [*MADE]])
def test_any_tree_comes_back(kinds, chains):
    with jax.enable_x64("f8" in kinds):
        tree = {
            k: [MADE[k]((3, chains, *s)) for s in SHAPES]
            + [np.full((3, chains), np.nan).astype(k if k[0] == "f" else "f4")]
            for k in kinds
        }
        arrays, back = there_and_back(tree)
    assert len(arrays) < len(jax.tree.leaves(tree)) - 20
    jax.tree.map(np.testing.assert_array_equal, back, tree)
    assert jax.tree.map(lambda a: a.dtype, back) == jax.tree.map(lambda a: a.dtype, tree)


def test_bits_that_are_no_plain_numbers_are_kept():
    odd = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 1, 0x7F800000], np.uint32).view(np.float32)
    tree = {"x": np.tile(odd, (3, 2, 1)), "n": np.full((3, 2), -1, np.int32)}
    _, back = there_and_back(tree)
    np.testing.assert_array_equal(back["x"].view(np.uint32), tree["x"].view(np.uint32))


def test_rows_stay_short():
    tree = [np.full((3, 2, 50), i, np.float32) for i in range(12)]
    arrays, back = there_and_back(tree)
    assert [a.shape for a in arrays] == [(3, 2, 250), (3, 2, 250), (3, 2, 100)]
    np.testing.assert_array_equal(np.stack(back), np.stack(tree))
