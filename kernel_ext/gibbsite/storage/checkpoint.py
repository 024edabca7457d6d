"""A run's state as plain arrays: one file, replaced in one step, read without executing anything."""

import hashlib
import importlib.metadata
import io
import json
import math
import os
import stat
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.errors import CheckpointError
from gibbsite.ground.process import available_memory, readable
from gibbsite.plans.schedule.plan import Plan

FORMAT = 3
FILE = "checkpoint.npz"
_DIGEST = hashlib.sha256().digest_size


def is_key(leaf: Any) -> bool:
    """Whether a leaf of a state holds random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def plain(leaf: Any) -> Any:
    """A leaf; random keys as the integers that they stand for."""
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def _leaves(state: Any) -> list[tuple[str, Any]]:
    flat, _ = jax.tree_util.tree_flatten_with_path(state)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in flat]


def pack(state: Any) -> dict[str, np.ndarray]:
    """The leaves of a state by their paths, as `plain` has them."""
    return {p: np.asarray(plain(v)) for p, v in _leaves(state)}


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
        if is_key(like):
            same = (
                np.shape(v)[len(like.shape) :]
                == jax.eval_shape(jax.random.key_data, like).shape[len(like.shape) :]
            )
            leaf = jax.random.wrap_key_data(jnp.asarray(v)) if same else None
            if leaf is None or leaf.dtype != like.dtype:
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


# Until it is, all states of the sources have one version, and other ones may draw otherwise.
RELEASED = False


def versions() -> dict[str, str]:
    """The versions that a run's draws depend on; that of sources that are not released has their hash."""
    found = {p: importlib.metadata.version(p) for p in ("gibbsite", "jax", "jaxlib", "numpyro")}
    if not RELEASED:
        found["gibbsite"] += f"+src.{_sources()}"
    return found


@cache
def _sources() -> str:
    """A hash of the package's source files."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def requirements(saved: dict[str, str]) -> str:
    """What to tell pip, so that a run with these versions can go on; of sources that were not released, which
    pip does not know, the hash says which."""
    known = {p: v.partition("+src.") for p, v in saved.items()}
    told = " ".join(f"{p}=={v}" for p, (v, _, _) in known.items())
    return told + "".join(f" (sources {h} of {p})" for p, (_, _, h) in known.items() if h)


def same_versions(saved: dict[str, str]) -> None:
    """Raise `CheckpointError` where this session's versions are not those of the saved run."""
    now = versions()
    other = [f"{p} {v} (here {now.get(p)})" for p, v in saved.items() if v != now.get(p)]
    if other:
        raise CheckpointError(
            f"the saved run was made with {', '.join(other)}; it would not go on exactly. To resume "
            f"it: pip install {requirements(saved)}. Its draws can be read without: gibbsite.load(path)"
        )


def encoded(facts: dict[str, Any], state: dict[str, np.ndarray]) -> bytes:
    """Facts, as JSON knows them, and arrays as the bytes of an npz."""
    body = io.BytesIO()
    named = {f"leaf_{i}": v for i, v in enumerate(state.values())}
    text = json.dumps({**facts, "paths": list(state)})
    np.savez(body, facts=np.frombuffer(text.encode(), np.uint8), **named)  # type: ignore[arg-type]
    return body.getvalue()


def decoded(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The inverse of `encoded`, for bytes that may be anything: nothing is unpickled, and no array is larger
    than the bytes that are there for it. Raises `ValueError`."""
    try:
        arrays = _members(body)
        facts = json.loads(arrays.pop("facts").tobytes())
        paths = facts.pop("paths")
        return facts, {str(p): arrays[f"leaf_{i}"] for i, p in enumerate(paths)}
    except (KeyError, TypeError, AttributeError, RecursionError, zipfile.BadZipFile) as problem:
        raise ValueError(str(problem)) from problem


def write(
    folder: Path,
    facts: dict[str, Any],
    state: dict[str, np.ndarray],
    durable: bool = True,
    file_name: str = FILE,
) -> tuple[int, ...]:
    """Replace the checkpoint in `folder`, or another file of its form: a reader, or a crash, sees the old one
    or the new one whole.

    The file is an npz with the SHA-256 of all before it as its last bytes. `durable` waits for the disk
    to have it; `sync_name` waits for its name. Returns its `mark`.
    """
    content = encoded(facts, state)
    new = folder / (file_name + ".new")
    new.unlink(missing_ok=True)  # also where it is a link to somebody's file
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
    with os.fdopen(file, "wb") as out:
        out.write(content + hashlib.sha256(content).digest())
        if durable:
            out.flush()
            os.fsync(out.fileno())
    written = _mark(os.stat(new, follow_symlinks=False))  # now: once it has its name, others may take it
    os.replace(new, folder / file_name)
    return written


def sync_name(folder: Path) -> None:
    """Wait until the disk holds the checkpoint under its name."""
    if os.name == "posix":
        synced(folder)


def synced(path: Path) -> None:
    """Wait until the disk holds a file, or the names in a folder."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def mark(folder: Path, file_name: str = FILE) -> tuple[int, ...] | None:
    """Tells one checkpoint's file, or another of its folder, from the next that is called so, without reading
    it; None where there is none."""
    try:
        return _mark(os.stat(folder / file_name, follow_symlinks=False))
    except OSError:
        return None


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns


def read(folder: Path, file_name: str = FILE) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Facts and packed state, or what another file of this form holds. Raises `CheckpointError` where there
    is none, or one that cannot be read.

    Nothing is unpickled, no link is followed, and no array is larger than the bytes that are there for it.
    """
    try:
        found = os.stat(folder / file_name, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
            raise OSError(f"{file_name} is not a plain file")
        if found.st_size > available_memory():
            raise OSError(f"{file_name} has {readable(found.st_size)}, more than there is memory for")
        content = (folder / file_name).read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{str(folder)!r} holds no saved run") from None
    except (OSError, ValueError) as problem:
        raise CheckpointError(f"the saved run in {str(folder)!r} cannot be read: {problem}") from problem
    try:
        body, digest = content[:-_DIGEST], content[-_DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            raise ValueError(f"{file_name} is not what was written, or of an older version of Gibbsite")
        facts, state = decoded(body)
    except ValueError as problem:
        raise CheckpointError(f"the saved run in {str(folder)!r} cannot be read: {problem}") from problem
    if facts.get("format") != FORMAT:
        raise CheckpointError(
            f"the saved run in {str(folder)!r} has format {facts.get('format')}; this version of Gibbsite "
            f"reads format {FORMAT}"
        )
    return facts, state


def _members(body: bytes) -> dict[str, np.ndarray]:
    """The arrays of an npz that was stored without compression."""
    out = {}
    with zipfile.ZipFile(io.BytesIO(body)) as file:
        for info in file.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(body):
                raise ValueError(f"{info.filename} is compressed, or larger than the file")
            out[info.filename.removesuffix(".npy")] = _array(file.read(info))
    return out


def _array(data: bytes) -> np.ndarray:
    """One array in NumPy's format: plain numbers, as many as there are bytes."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = header(stream)
    if dtype.hasobject or (fortran and len(shape) > 1):
        raise ValueError(f"an array of {dtype} is not plain numbers")
    rest = data[stream.tell() :]
    if math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError(f"an array says {shape} of {dtype}, and has {len(rest)} bytes")
    return np.frombuffer(rest, dtype).reshape(shape).copy()


def data_hash(plan: Plan) -> str:
    """A hash of the data that a plan runs on, whatever its schedule asks of its kernels."""
    digest = hashlib.sha256()
    inputs = {name: value for name, value in plan.inputs.items() if name != "options"}
    for leaf in [*jax.tree.leaves(inputs), *(plan.observed[n] for n in sorted(plan.observed))]:
        array = np.ascontiguousarray(jax.device_get(leaf))
        digest.update(repr((array.shape, str(array.dtype))).encode() + array.tobytes())
    return digest.hexdigest()[:32]
