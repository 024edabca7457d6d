"""A run's state as plain arrays: one file, replaced in one step, read without executing anything."""

import hashlib
import importlib.metadata
import io
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.errors import CheckpointError
from gibbsite.kernels.scheduling.plan import Plan

FORMAT = 1
FILE = "checkpoint.npz"


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _leaves(state: Any) -> list[tuple[str, Any]]:
    flat, _ = jax.tree_util.tree_flatten_with_path(state)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in flat]


def pack(state: Any) -> dict[str, np.ndarray]:
    """The leaves of a state by their paths; random keys as the integers that they stand for."""
    return {p: np.asarray(jax.random.key_data(v) if _is_key(v) else v) for p, v in _leaves(state)}


def unpack(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The state that `pack` took apart. `template` tells structure, shapes and dtypes.

    Raises `CheckpointError` where the arrays do not fit it.
    """
    paths = _leaves(template)
    if {p for p, _ in paths} != set(arrays):
        raise CheckpointError("the saved state has other parts than this schedule's; is it another version?")
    leaves = []
    for path, like in paths:
        v = arrays[path]
        if _is_key(like):
            leaf = jax.random.wrap_key_data(jnp.asarray(v))
            if leaf.dtype != like.dtype:
                raise CheckpointError(
                    f"the saved random keys do not fit this session's, {like.dtype}; set "
                    f"jax_default_prng_impl as it was when the run began"
                )
        else:
            if v.dtype != like.dtype:
                raise CheckpointError(
                    f"the saved state is {v.dtype} at {path}, this session computes in {like.dtype}; set "
                    f"jax_enable_x64 as it was when the run began"
                )
            leaf = jnp.asarray(v)
        if leaf.shape != like.shape:
            raise CheckpointError(f"the saved state has shape {leaf.shape} at {path}, not {like.shape}")
        leaves.append(leaf)
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def versions() -> dict[str, str]:
    """The versions that a run's draws depend on."""
    return {p: importlib.metadata.version(p) for p in ("gibbsite", "jax", "jaxlib", "numpyro")}


def same_versions(saved: dict[str, str]) -> None:
    """Raise `CheckpointError` where this session's versions are not those of the saved run."""
    now = versions()
    other = [f"{p} {v} (here {now.get(p)})" for p, v in saved.items() if v != now.get(p)]
    if other:
        raise CheckpointError(
            f"the saved run was made with {', '.join(other)}; it would not go on exactly. Install those "
            f"versions to resume it; its draws can be read without: gibbsite.load(path)"
        )


def write(folder: Path, facts: dict[str, Any], state: dict[str, np.ndarray]) -> None:
    """Replace the checkpoint in `folder`: a reader, or a crash, sees the old one or the new one whole."""
    body = io.BytesIO()
    named = {f"leaf_{i}": v for i, v in enumerate(state.values())}
    text = json.dumps({**facts, "paths": list(state)})
    np.savez(body, facts=np.frombuffer(text.encode(), np.uint8), **named)  # type: ignore[arg-type]
    new = folder / (FILE + ".new")
    new.write_bytes(body.getbuffer())
    os.replace(new, folder / FILE)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Facts and packed state. Raises `CheckpointError` where there is none, or one that cannot be read."""
    try:
        with np.load(folder / FILE, allow_pickle=False) as file:
            facts = json.loads(file["facts"].tobytes())
            paths = facts.pop("paths")
            state = {p: file[f"leaf_{i}"] for i, p in enumerate(paths)}
    except FileNotFoundError:
        raise CheckpointError(f"{str(folder)!r} holds no saved run") from None
    except (OSError, ValueError, KeyError) as problem:
        raise CheckpointError(f"the saved run in {str(folder)!r} cannot be read: {problem}") from problem
    if facts.get("format") != FORMAT:
        raise CheckpointError(
            f"the saved run in {str(folder)!r} has format {facts.get('format')}; this version of Gibbsite "
            f"reads format {FORMAT}"
        )
    return facts, state


def data_hash(plan: Plan) -> str:
    """A hash of the data that a plan runs on."""
    digest = hashlib.sha256()
    for leaf in [*jax.tree.leaves(plan.inputs), *(plan.observed[n] for n in sorted(plan.observed))]:
        array = np.ascontiguousarray(jax.device_get(leaf))
        digest.update(repr((array.shape, str(array.dtype))).encode() + array.tobytes())
    return digest.hexdigest()[:32]
