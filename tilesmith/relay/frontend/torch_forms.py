"""Forms of torch's operators in ONNX that torch itself writes such that it loses track of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["better_forms"]


@contextmanager
def better_forms(torch: Any, opset: int) -> Iterator[None]:
    """Let torch write these operators as here, for a while."""
    for name, form in _FORMS.items():
        torch.onnx.register_custom_op_symbolic(name, form, opset)
    try:
        yield
    finally:
        for name in _FORMS:
            torch.onnx.unregister_custom_op_symbolic(name, opset)


def _unflatten(g: Any, data: Any, dim: Any, sizes: Any) -> Any:
    """Split an axis (attention splits off its heads so): the rank of the result is that of the
    input and the number of new sizes less one.
    """
    import torch
    from torch.onnx import symbolic_helper

    helper: Any = symbolic_helper

    def vector(*values: int) -> Any:
        return g.op("Constant", value_t=torch.tensor(values, dtype=torch.int64))

    rank = helper._get_tensor_rank(data)
    axis = helper._get_const(dim, "i", "dim")
    if helper._is_packed_list(sizes):
        new = [g.op("Unsqueeze", size, vector(0)) for size in helper._unpack_list(sizes)]
    else:
        new = [vector(size) for size in helper._get_const(sizes, "is", "sizes")]
    if rank is None:
        return helper._unimplemented("aten::unflatten", "the rank of the input is not known", data)
    axis %= rank
    shape = g.op("Shape", data)
    before = [g.op("Slice", shape, vector(0), vector(axis))] if axis else []
    after = [g.op("Slice", shape, vector(axis + 1), vector(rank))] if axis < rank - 1 else []
    made = g.op("Reshape", data, g.op("Concat", *before, *new, *after, axis_i=0))
    made.setType(data.type().with_sizes([None] * (rank - 1 + len(new))))
    return made


_FORMS = {"aten::unflatten": _unflatten}
