"""The arrays of a store, and the only form in which they are read back.

Reading trusts nothing that it has not looked at: before Zarr decodes a byte, the metadata of each array must
be those of our own format (Zarr 3, plain numbers, the codecs listed here) and those that the checkpoint
remembers, and every chunk must be there. Every chunk carries a CRC-32C, which Zarr's own codec writes and
checks; the checkpoint remembers what each of them holds."""

import hashlib
import json
import math
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import CheckpointError
from gibbsite.ground.lazy_import import later
from gibbsite.ground.process import available_memory
from gibbsite.storage.checkpoint import synced

zarr = later("zarr")
codecs = later("zarr.codecs")

_META = "zarr.json"
_MOST_META_BYTES = 2**26
_MOST_AXES = 64  # NumPy's
_CODECS = ("bytes", "zstd", "crc32c")
PLAIN = {
    "bool",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
}

# files that the disk is waited for at once
_AT_ONCE = 32

# Zarr leaves out chunks that hold nothing but the fill value; then one that is lost would read as zeros.
_CONFIG: Any = {"write_empty_chunks": True}


def plain_dtype(name: Any) -> str:
    """The name of a type of plain numbers. Raises `ValueError` for any other."""
    if not isinstance(name, str) or name not in PLAIN:
        raise ValueError(f"{str(name)[:40]!r} is no type of plain numbers")
    return name


def create(
    root: Path, label: str, shape: Sequence[int], chunks: Sequence[int], dtype: Any, dims: Sequence[str]
) -> Any:
    """A new array at `label` below the group `root`; what a crash left there, uncounted, is replaced."""
    return zarr.open_group(root, mode="a", zarr_format=3).create_array(
        label,
        shape=tuple(shape),
        chunks=tuple(max(1, c) for c in chunks),
        dtype=dtype,
        compressors=[codecs.ZstdCodec(), codecs.Crc32cCodec()],
        dimension_names=list(dims),
        config=_CONFIG,
        overwrite=True,
    )


def reopened(root: Path, label: str, remembered: str) -> Any:
    """An array to go on writing to, checked as by `read`."""
    _checked(root, label, remembered)
    return zarr.open_array(root / label, mode="r+", zarr_format=3).with_config(_CONFIG)


def fingerprint(root: Path, label: str) -> str:
    """What a checkpoint remembers of an array's or a group's metadata: all but how many draws there are."""
    return _fingerprint(_metadata(root, label))


def attributes(root: Path, remembered: str) -> Mapping[str, Any]:
    """The attributes of a group. Raises `CheckpointError` where they are not as they were written."""
    found = _metadata(root, "")
    if _fingerprint(found) != remembered:
        raise damaged(root, _META, "it is not what was written")
    return found["attributes"]


def read(root: Path, label: str, remembered: str, steps: int | None = None) -> np.ndarray:
    """An array `[chain, draw, …]` up to `steps` draws, or all of one without draws.

    Raises `CheckpointError`, which names the file, where anything is missing or not as it was written.
    """
    shape, chunks, separator, width = _checked(root, label, remembered)
    if steps is not None:
        if len(shape) < 2 or shape[1] < steps:
            raise damaged(
                root, f"{label}/{_META}", f"it has fewer than the {steps} draws that were committed"
            )
        shape = (shape[0], steps, *shape[2:])
    bytes_of_chunk = width * math.prod(chunks)
    if max(width * math.prod(shape), bytes_of_chunk) > available_memory():
        raise damaged(root, f"{label}/{_META}", "it tells of more draws than there is memory for")
    for key in _keys(shape, chunks, separator):
        path = root / label / key
        if path.is_symlink() or not path.is_file() or not path.stat().st_size:
            raise damaged(root, f"{label}/{key}", "it is missing or empty")
        if unpacked_size(path) != bytes_of_chunk:
            raise damaged(root, f"{label}/{key}", "it does not unpack to the size of a chunk")
    array: Any = zarr.open_array(root / label, mode="r", zarr_format=3)
    try:
        return np.asarray(array[...] if steps is None else array[:, :steps])
    except Exception as problem:  # whatever a codec raises about bytes that are not what was written
        raise damaged(root, _first_damaged(array, label, shape, chunks, separator), str(problem)) from problem


def unpacked_size(path: Path) -> int | None:
    """How many bytes a Zstandard frame says that it unpacks to, which is all that is made room for; None
    where it does not say, or is none. RFC 8878, §3.1.1."""
    with path.open("rb") as file:
        head = file.read(18)
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        return None
    flags = head[4]
    single, kind = flags >> 5 & 1, flags >> 6
    at = 5 + (not single) + (0, 1, 2, 4)[flags & 3]  # after the window, and the number of a dictionary
    length = (single, 2, 4, 8)[kind]
    if not length or len(head) < at + length:
        return None
    return int.from_bytes(head[at : at + length], "little") + (256 if kind == 1 else 0)


def block_sums(values: np.ndarray, rows: int, first: int = 0) -> str:
    """Checksums of every `rows` draws in `[chain, draw, …]`, those of a chunk, from chunk `first` on: eight
    hexadecimal digits each.

    Zarr's own tell whether a chunk is as it was written; these, which the checkpoint remembers, whether it is
    the one that was written last, and in this place: not one that a power cut or a backup put back.
    """
    found = []
    for start in range(first * rows, values.shape[1], rows):
        found.append(content_sum(values[:, start : start + rows]))
    return "".join(f"{one:08x}" for one in found)


def content_sum(values: np.ndarray) -> int:
    """A checksum of an array's bytes."""
    return zlib.crc32(np.ascontiguousarray(values).tobytes())


def chunk_of(label: str, shape: Sequence[int], number: int) -> str:
    """The file of the `number`-th chunk of draws."""
    return f"{label}/c/{'/'.join(['0', str(number), *['0'] * (len(shape) - 2)])}"


def rows_of(array: Any) -> int:
    """How many draws a chunk of an array holds."""
    return int(array.chunks[1])


def missing(root: Path, label: str, array: Any) -> str | None:
    """The first file of an array that is not there."""
    keys = [_META] if array is None else [_META, *_keys(array.shape, array.chunks, "/")]
    folder = root / label
    return next((f"{label}/{key}" for key in keys if not os.path.exists(f"{folder}/{key}")), None)


def sync(
    root: Path, written: Mapping[str, tuple[Any, int, int]], between: Callable[[], None] = lambda: None
) -> None:
    """Wait until the disk holds what was written of each array: `label: (array, first draw, end)`. Raises
    `OSError`, and what `between` raises, which is called before every file.

    For many files at once: a slow disk (a network's, a busy one) takes as long for one as for several.
    """
    files = []
    for label, (array, start, end) in written.items():
        rows, shape = rows_of(array), (array.shape[0], end, *array.shape[2:])
        files += [root / label / key for key in _keys(shape, array.chunks, "/", start // rows)]
        files.append(root / label / _META)
    problems: list[BaseException] = []

    def wait_for(some: Sequence[Path]) -> None:
        try:
            for path in some:
                between()
                synced(path)
        except BaseException as problem:  # whoever asked is told
            problems.append(problem)

    shares = [files[i::_AT_ONCE] for i in range(1, min(_AT_ONCE, len(files)))]
    threads = [threading.Thread(target=wait_for, args=(some,), daemon=True) for some in shares]
    for thread in threads:
        thread.start()
    wait_for(files[::_AT_ONCE])
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def shrinkage(root: Path, written: Mapping[str, tuple[Any, int, int]]) -> float | None:
    """Bytes on disk for each byte of draws, over the last chunks of what was written; None of nothing."""
    raw = on_disk = 0
    for label, (array, _, end) in written.items():
        rows, shape = rows_of(array), (array.shape[0], end, *array.shape[2:])
        first = (end - 1) // rows
        raw += (end - first * rows) * array.dtype.itemsize * math.prod(shape) // end
        on_disk += sum(os.path.getsize(root / label / key) for key in _keys(shape, array.chunks, "/", first))
    return on_disk / raw if raw else None


def _keys(shape: Sequence[int], chunks: Sequence[int], separator: str, first: int = 0) -> Iterator[str]:
    """The files of the chunks that cover `shape`, from chunk `first` of the draws on: one by one, since a
    damaged store may tell of more than there is memory for."""
    counts = [-(-s // c) for s, c in zip(shape, chunks, strict=True)]
    if not counts:
        yield "c"
        return
    spans = [range(first if axis == 1 else 0, n) for axis, n in enumerate(counts)]
    for i in _product(spans):
        yield f"c/{separator.join(map(str, i))}"


def _product(spans: Sequence[range]) -> Iterator[tuple[int, ...]]:
    """As `itertools.product`, which holds all of its arguments in memory."""
    if not spans:
        yield ()
        return
    for i in spans[0]:
        for rest in _product(spans[1:]):
            yield (i, *rest)


def _metadata(root: Path, label: str) -> dict[str, Any]:
    path = root / label / _META
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_META_BYTES:
            raise damaged(root, f"{label}/{_META}", "it is missing, not a plain file, or far too large")
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as problem:
        if isinstance(problem, CheckpointError):
            raise
        raise damaged(root, f"{label}/{_META}", str(problem)) from problem
    if (
        not isinstance(found, dict)
        or found.get("zarr_format") != 3
        or not isinstance(found.get("attributes"), dict)
    ):
        raise damaged(root, f"{label}/{_META}", "it is not of Zarr's format 3")
    return found


def _fingerprint(metadata: Mapping[str, Any]) -> str:
    told = {k: v for k, v in metadata.items() if k != "shape"}
    told["shape"] = [n for axis, n in enumerate(metadata.get("shape", ())) if axis != 1]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def _checked(root: Path, label: str, remembered: str) -> tuple[tuple[int, ...], tuple[int, ...], str, int]:
    """Shape, chunks, key separator and bytes of an element of an array that may be decoded."""
    found = _metadata(root, label)
    where = f"{label}/{_META}"
    try:
        shape = tuple(found["shape"])
        chunks = tuple(found["chunk_grid"]["configuration"]["chunk_shape"])
        codecs = tuple(codec["name"] for codec in found["codecs"])
        encoding = found["chunk_key_encoding"]
        plain = (
            found["node_type"] == "array"
            and found["data_type"] in PLAIN
            and found["chunk_grid"]["name"] == "regular"
            and encoding["name"] == "default"
            and codecs == _CODECS
            and not found.get("storage_transformers")
            and len(shape) == len(chunks) <= _MOST_AXES
            and all(type(n) is int and n >= 0 for n in shape)
            and all(type(n) is int and n > 0 for n in chunks)
        )
        separator = encoding.get("configuration", {}).get("separator", "/")
    except (KeyError, TypeError, AttributeError):
        plain, shape, chunks, separator = False, (), (), "/"
    if not plain:
        raise damaged(root, where, "it describes no array that Gibbsite writes; nothing of it was decoded")
    if _fingerprint(found) != remembered:
        raise damaged(root, where, "it is not what was written")
    return shape, chunks, separator, np.dtype(found["data_type"]).itemsize


def _first_damaged(
    array: Any, label: str, shape: Sequence[int], chunks: Sequence[int], separator: str
) -> str:
    """The first chunk that cannot be decoded."""
    for key in _keys(shape, chunks, separator):
        at = [int(i) for i in key[2:].split(separator)] if len(shape) else []
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunks, strict=True))
        try:
            array[box]
        except Exception:
            return f"{label}/{key}"
    return label


def damaged(root: Path, file: str, why: str) -> CheckpointError:
    """The error of a file below `root` that is not as it should be."""
    store, file = str(root.parent), f"{root.name}/{file.strip('/')}"
    return CheckpointError(
        f"the store {store!r} is damaged: {file}: {why}. What is whole of it: "
        f"gibbsite.load({store!r}, partial=True)"
    )
