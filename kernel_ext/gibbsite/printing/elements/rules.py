"""One rule per primitive: which element of which operand an element is, or how it is computed from them."""

from collections.abc import Callable
from typing import Any

from gibbsite.printing.elements import axes, copies, elements
from gibbsite.printing.elements.indices import Index
from gibbsite.printing.elements.operators import ALONG, REDUCTIONS
from gibbsite.printing.elements.printer import Printer
from gibbsite.printing.elements.text import Text
from gibbsite.programs.jaxpr.primitives import PASSES

Rule = Callable[[Printer, Any, Any, tuple[Index, ...]], Text]

RULES: dict[str, Rule] = {
    **dict.fromkeys(PASSES, elements.pass_rule),
    **dict.fromkeys(REDUCTIONS, axes.reduction_rule),
    **dict.fromkeys(ALONG, axes.along_rule),
    "neg": elements.neg_rule,
    "not": elements.not_rule,
    "integer_pow": elements.integer_pow_rule,
    "square": elements.square_rule,
    "pow": elements.pow_rule,
    "rsqrt": elements.rsqrt_rule,
    "clamp": elements.clamp_rule,
    "convert_element_type": elements.convert_rule,
    "select_n": elements.select_rule,
    "broadcast_in_dim": copies.broadcast_rule,
    "squeeze": copies.squeeze_rule,
    "expand_dims": copies.expand_rule,
    "transpose": copies.transpose_rule,
    "slice": copies.slice_rule,
    "rev": copies.rev_rule,
    "reshape": copies.reshape_rule,
    "concatenate": copies.concatenate_rule,
    "pad": copies.pad_rule,
    "split": copies.split_rule,
    "iota": copies.iota_rule,
    "gather": copies.gather_rule,
    "dynamic_slice": copies.dynamic_slice_rule,
    "dynamic_update_slice": copies.dynamic_update_slice_rule,
    "scatter": copies.scatter_rule,
    "scatter-add": copies.scatter_rule,
    "scatter-mul": copies.scatter_rule,
    "dot_general": axes.dot_rule,
    "cond": elements.cond_rule,
    "div": elements.div_rule,
    "cholesky": axes.cholesky_rule,
}
