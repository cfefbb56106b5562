"""Lists one call of each of relax's operators that no example of relay's operators stands for, for
`tools/relax_operators.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import relax
from tilesmith.relax import op
from tilesmith.relax.op.index import checked_lengths
from tilesmith.relax.op.linear_algebra import dense
from tilesmith.relax.op.packed_attention import attention_var_len
from tilesmith.relax.sharding import device_mesh

__all__ = ["EXAMPLES"]


def tensor(*shape: int, dtype: str = "float32") -> Any:
    """Return a variable of a tensor's type."""
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


def _unary(function: Callable[..., Any], *shape: int, **attributes: Any) -> Callable[[], Any]:
    return lambda: function(tensor(*shape), **attributes)


EXAMPLES: dict[str, Callable[[], Any]] = {
    "relax.builtin.stop_lift_params": _unary(op.builtin.stop_lift_params, 2, 3),
    "relax.ones": lambda: op.ones((2, 3)),
    "relax.zeros": lambda: op.zeros((2, 3)),
    "relax.tril": _unary(op.tril, 5, 5),
    "relax.scatter_nd": lambda: op.scatter_nd(
        tensor(5, 4), tensor(3, 1, dtype="int64"), tensor(3, 4)
    ),
    "relax.wrap_param": _unary(op.wrap_param, 2, 3, dtype="float16"),
    "relax.square": _unary(op.square, 2, 3),
    "relax.ewise_fma": lambda: op.ewise_fma(tensor(2, 3), tensor(2, 3), tensor(2, 3)),
    "relax.grad.no_grad": _unary(op.grad.no_grad, 2, 3),
    "relax.grad.start_checkpoint": _unary(op.grad.start_checkpoint, 2, 3),
    "relax.grad.end_checkpoint": _unary(op.grad.end_checkpoint, 2, 3),
    "relax.grad.avg_pool3d_backward": lambda: op.grad.avg_pool3d_backward(
        tensor(1, 2, 3, 3, 3), tensor(1, 2, 3, 3, 3)
    ),
    "relax.grad.max_pool3d_backward": lambda: op.grad.max_pool3d_backward(
        tensor(1, 2, 3, 3, 3), tensor(1, 2, 3, 3, 3)
    ),
    "relax.grad.take_backward": lambda: op.grad.take_backward(
        tensor(7, 3), tensor(5, 3), tensor(7, dtype="int64"), axis=0
    ),
    "relax.grad.nll_loss_backward": lambda: op.grad.nll_loss_backward(
        tensor(), tensor(4, 3), tensor(4, dtype="int64")
    ),
    "relax.layout_transform": _unary(op.layout_transform, 4, 6, index_map=lambda i, j: (j, i)),
    "relax.flatten": _unary(op.flatten, 2, 3),
    "relax.variance": _unary(op.variance, 2, 3, axis=1),
    "relax.std": _unary(op.std, 2, 3, axis=1),
    "relax.argmax": _unary(op.argmax, 2, 3, axis=1),
    "relax.argmin": _unary(op.argmin, 2, 3, axis=1),
    "relax.nn.gelu": _unary(op.nn.gelu, 2, 3),
    "relax.nn.gelu_tanh": _unary(op.nn.gelu_tanh, 2, 3),
    "relax.nn.silu": _unary(op.nn.silu, 2, 3),
    "relax.nn.rms_norm": lambda: op.nn.rms_norm(tensor(2, 3), tensor(3)),
    "relax.unique": _unary(op.unique, 7),
    "relax.gather_nd": lambda: op.gather_nd(tensor(5, 4), tensor(3, 1, dtype="int64")),
    "relax.nn.dense": lambda: dense(tensor(2, 3), tensor(4, 3)),
    "relax.checked_lengths": lambda: checked_lengths(tensor(4, dtype="int32"), (9,)),
    "relax.vision.all_class_non_max_suppression": lambda: op.vision.all_class_non_max_suppression(
        tensor(1, 6, 4), tensor(1, 2, 6), tensor(1, dtype="int64"), tensor(1), tensor(1)
    ),
    "relax.nn.attention": lambda: op.nn.attention(
        tensor(2, 5, 3, 4), tensor(2, 7, 3, 4), tensor(2, 7, 3, 6)
    ),
    "relax.nn.attention_var_len": lambda: attention_var_len(
        *[tensor(1, 6, 2, 4) for _ in range(3)], tensor(3, dtype="int32"), tensor(dtype="int32")
    ),
    "relax.multinomial_from_uniform": lambda: op.multinomial_from_uniform(
        tensor(2, 3), tensor(4, 1), tensor(4, 1, dtype="int64")
    ),
    "relax.ccl.allreduce": _unary(op.ccl.allreduce, 2, 3),
    "relax.ccl.allgather": _unary(op.ccl.allgather, 2, 3, num_workers=1),
    "relax.ccl.broadcast_from_worker0": _unary(op.ccl.broadcast_from_worker0, 2, 3),
    "relax.ccl.scatter_from_worker0": _unary(op.ccl.scatter_from_worker0, 2, 3, num_workers=1),
    "relax.dist.redistribute_replica_to_shard": _unary(
        op.dist.redistribute_replica_to_shard, 2, 3, num_workers=1, axis=0
    ),
    "relax.dist.redistribute": _unary(
        op.dist.redistribute, 2, 3, device_mesh=device_mesh((1,), [0]), placement="R"
    ),
}
"""A call by the operator's name; collectives are those of one worker."""
