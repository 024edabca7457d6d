"""How columns of a Bokeh data source travel to the browser: small typed buffers, or plain lists; and larger
texts: packed."""

import base64
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_DTYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "u1": np.uint8}


def encode_column(values: ArrayLike) -> Any:
    """A 1-d column as ``{"dtype", "data"}`` with little-endian bytes, or a list for text and ragged values.

    Floats travel as 32 bits unless they are float64 with magnitudes where that would show; integers as 32
    bits; booleans as bytes.
    """
    if isinstance(values, list | tuple) and (
        not values or not isinstance(values[0], int | float | np.number)
    ):
        return [v.tolist() if isinstance(v, np.ndarray | np.generic) else v for v in values]
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"a column must be 1-d, not of shape {array.shape}")
    if array.dtype.kind not in "fiub":
        return array.tolist()
    code = _code(array)
    return {"dtype": code, "data": np.ascontiguousarray(array, dtype=_DTYPES[code]).tobytes()}


def _code(array: np.ndarray) -> str:
    kind = array.dtype.kind
    if kind == "b":
        return "u1"
    if kind in "iu":
        return "i4" if array.size == 0 or np.abs(array).max() < 2**31 else "f8"
    finite = array[np.isfinite(array)]
    if array.dtype == np.float64 and finite.size:
        spread, top = np.ptp(finite), np.abs(finite).max()
        # 32 bits resolve a pixel as long as the values are not a small wobble on a large offset.
        if top > 1e30 or (spread > 0 and top > 1e3 * spread):
            return "f8"
    return "f4"


def listed(values: ArrayLike) -> list[Any]:
    """A column as JSON can hold it and compresses it well: numbers to some four digits of their range, None
    for those that are not finite; text as it is."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return array.tolist()
    finite = np.isfinite(array)
    spread = float(np.ptp(array[finite])) if finite.any() else 0.0
    digits = 3 - math.floor(math.log10(spread)) if spread > 0 else 15
    return [round(v, digits) if good else None for v, good in zip(array.tolist(), finite, strict=True)]


def encode(columns: Mapping[str, ArrayLike]) -> dict[str, Any]:
    """All columns of one source; they must be of one length.

    Raises:
        ValueError: columns of different lengths, or not 1-d.
    """
    lengths = {name: len(values) for name, values in columns.items()}  # type: ignore[arg-type]
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of one source differ in length: {lengths}")
    return {name: encode_column(values) for name, values in columns.items()}


def packed(value: Any) -> str:
    """JSON values as text: compressed, in base64; the order of keys stays. Saved notebooks carry it."""
    return base64.b64encode(zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 9)).decode()


def unpacked(text: str) -> Any:
    """The inverse of `packed`."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
