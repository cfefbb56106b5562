"""Names the attributes of graph operators as users' compiler does: ``SoftmaxAttrs``.

Here the attributes of all operators have one class, `Attrs`, which knows the operator's schema. A
class of this file stands for the attributes of some operators: those are its instances, and calling
it makes checked ones.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax.attrs import Attrs
from tilesmith.relax.op.declaration import find_function

_OPERATORS: dict[str, str] = {
    "CallTIRWithGradAttrs": "call_tir_with_grad",
    "InitAttrs": "full full_like ones ones_like zeros zeros_like arange",
    "TriluAttrs": "tril triu",
    "AstypeAttrs": "astype",
    "TakeAttrs": "take",
    "StridedSliceAttrs": "strided_slice",
    "MatmulAttrs": "matmul",
    "Conv2DAttrs": "nn.conv2d",
    "Conv3DAttrs": "nn.conv3d",
    "Conv2DTransposeAttrs": "nn.conv2d_transpose",
    "Pool2DAttrs": "nn.max_pool2d nn.avg_pool2d grad.max_pool2d_backward grad.avg_pool2d_backward",
    "AdaptivePool2DAttrs": "nn.adaptive_avg_pool2d nn.adaptive_max_pool2d",
    "SoftmaxAttrs": "nn.softmax nn.log_softmax",
    "BatchNormAttrs": "nn.batch_norm",
    "LayerNormAttrs": "nn.layer_norm",
    "DropoutAttrs": "nn.dropout",
    "StatisticalAttrs": "sum prod mean variance std max min",
    "ConcatAttrs": "concat",
    "ExpandDimsAttrs": "expand_dims",
    "PermuteDimsAttrs": "permute_dims",
    "SortAttrs": "sort",
    "ArgsortAttrs": "argsort",
    "SplitAttrs": "split",
    "SqueezeAttrs": "squeeze",
    "LayoutTransformAttrs": "layout_transform",
    "Resize2DAttrs": "image.resize2d",
    "ArgmaxArgminAttrs": "argmax argmin",
    "RepeatAttrs": "repeat",
    "TileAttrs": "tile",
    "ScanopAttrs": "cumsum cumprod",
    "TopKAttrs": "topk",
    "EinsumAttrs": "einsum",
    "FlipAttrs": "flip",
}

__all__ = sorted(_OPERATORS)


class _OfOperators(type):
    """Classes whose instances are the attributes of some operators."""

    operators: tuple[str, ...]

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, Attrs):
            return False
        schemas = [find_function(name).op.get_attr("schema") for name in cls.operators]
        return any(instance.schema is schema for schema in schemas)


def _make(cls: Any, **values: Any) -> Attrs:
    """Make checked attributes of the first operator of a class that has all of them."""
    found = [find_function(name).op for name in cls.operators]
    fitting = [one for one in found if values.keys() <= one.get_attr("schema").fields.keys()]
    chosen = (fitting or found)[0]
    made: Attrs = chosen.get_attr("schema").check(chosen.name, values)
    return made


def __getattr__(name: str) -> Any:
    if name not in _OPERATORS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    operators = tuple(_OPERATORS[name].split())
    text = f"The attributes of {', '.join(operators)}."
    members = {"operators": operators, "__new__": _make, "__doc__": text, "__module__": __name__}
    made = _OfOperators(name, (), members)
    globals()[name] = made
    return made
