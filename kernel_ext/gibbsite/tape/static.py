"""What of an operation stands in the program and is no value: `y=3` of a power, the bounds of a slice."""

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

_TELLS_NOTHING = frozenset(
    "accuracy sharding out_sharding precision preferred_element_type weak_type unique_indices num_keys "
    "indices_are_sorted is_stable index_dtype axis_name impl donated_invars inline keep_unused layout "
    "copy_semantics algorithm symmetrize_input srcs devices shape new_sizes bit_width".split()
)  # of those that matter, sizes and types of bits are told with the result


def static_parameters(primitive: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters of a primitive as they are printed after its operands, without those that say nothing of
    its result."""
    if primitive == "slice":
        steps = params["strides"] or (1,) * len(params["start_indices"])
        ends = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
        return tuple(f"{a}:{b}" + (f":{s}" if s != 1 else "") for a, b, s in ends)
    shown = ((n, _written(v)) for n, v in params.items() if n not in _TELLS_NOTHING)
    return tuple(f"{n}={v}" for n, v in shown if v)


def _written(value: Any) -> str:
    """A plain value; "" for what is not plain, or the same as nothing."""
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, tuple):
        parts = [_written(v) or ("()" if v == () else "") for v in value]
        if not parts or not all(parts):
            return ""
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if value is True or isinstance(value, str) or (isinstance(value, int | float) and value is not False):
        return str(value)
    return ""
