"""Operators on tensors of nn. Each takes tensors of the function under construction, binds a call
of the graph IR there, and returns what it gives as tensors. ``name`` is a hint for the variable.
"""

from tilesmith.relax.frontend.nn.op.arguments import IntExpr, OutType
from tilesmith.relax.frontend.nn.op.calls import (
    debug_func,
    extern,
    print_,
    tensor_expr_op,
    tensor_ir_inplace_op,
    tensor_ir_op,
)
from tilesmith.relax.frontend.nn.op.elementwise import (
    add,
    astype,
    divide,
    equal,
    exp,
    gelu,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    relu,
    sigmoid,
    silu,
    softmax,
    sqrt,
    square,
    subtract,
    tanh,
    where,
)
from tilesmith.relax.frontend.nn.op.layers import (
    conv1d,
    conv1d_transpose,
    conv2d,
    conv3d,
    get_timestep_embedding,
    group_norm,
    interpolate,
    layer_norm,
    matmul,
    rms_norm,
    scaled_dot_product_attention,
)
from tilesmith.relax.frontend.nn.op.sampling import (
    multinomial_from_uniform,
    renormalize_top_p_top_k_prob,
    sample_top_p_top_k_from_sorted_prob,
)
from tilesmith.relax.frontend.nn.op.shapes import (
    argsort,
    broadcast_to,
    chunk,
    concat,
    cumsum,
    empty,
    full,
    ones,
    pad,
    permute,
    permute_dims,
    repeat,
    reshape,
    sort,
    split,
    squeeze,
    sum,
    take,
    topk,
    triu,
    unsqueeze,
    zeros,
)

__all__ = [
    "IntExpr", "OutType", "add", "argsort", "astype", "broadcast_to", "chunk", "concat", "conv1d",
    "conv1d_transpose", "conv2d", "conv3d", "cumsum", "debug_func", "divide", "empty", "equal",
    "exp", "extern", "full", "gelu", "get_timestep_embedding", "greater", "greater_equal",
    "group_norm", "interpolate", "layer_norm", "less", "less_equal", "matmul", "maximum", "minimum",
    "multinomial_from_uniform", "multiply", "negative", "not_equal", "ones", "pad", "permute",
    "permute_dims", "print_", "relu", "renormalize_top_p_top_k_prob", "repeat", "reshape",
    "rms_norm", "sample_top_p_top_k_from_sorted_prob", "scaled_dot_product_attention", "sigmoid",
    "silu", "softmax", "sort", "split", "sqrt", "square", "squeeze", "subtract", "sum", "take",
    "tanh", "tensor_expr_op", "tensor_ir_inplace_op", "tensor_ir_op", "topk", "triu", "unsqueeze",
    "where", "zeros",
]  # fmt: skip
