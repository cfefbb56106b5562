"""The names of strategies by module, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilesmith import te
from tilesmith.ir import Op
from tilesmith.relay.op.strategy.computes import copy_if_identical
from tilesmith.relay.op.strategy.convolutions import (
    get_conv2d_in_channels,
    get_conv2d_out_channels,
    is_depthwise_conv2d,
)
from tilesmith.relay.op.strategy.own import OwnStrategy, own_strategy, strategy_name
from tilesmith.relay.op.strategy.table import schedule_of_family
from tilesmith.relay.op.strategy.wrappers import (
    WRAPPERS,
    original_shape,
    rewritten_layout,
    wrap_topi_compute,
    wrapper,
)
from tilesmith.support.errors import UnknownMemberError, UnsupportedError
from tilesmith.support.lazy import resolve
from tilesmith.target import Target
from tilesmith.target.generic_func import get_native_generic_func

__all__ = ["MODULES", "StrategyNames", "naive_schedule", "wrap_topi_schedule"]

_GENERIC_STRATEGIES = """
all_class_nms argsort argwhere batch_matmul batch_norm bitserial_conv2d bitserial_dense concatenate
conv1d conv1d_transpose conv2d conv2d_NCHWc conv2d_backward_weight
conv2d_gemm_without_weight_transform conv2d_transpose conv2d_winograd_without_weight_transform
conv3d conv3d_transpose conv3d_winograd_without_weight_transform correlation cumprod cumsum
deformable_conv2d dense dense_pack depthwise_conv2d_NCHWc dft dilation2d einsum fast_softmax
get_valid_counts group_conv1d invert_permutation layout_transform log_softmax matmul multibox_prior
multibox_transform_loc multinomial nms normal proposal regular_nms roi_align scatter_elements
scatter_nd searchsorted sliding_window softmax sort sparse_add sparse_conv2d sparse_dense
sparse_dense_padded sparse_fill_empty_rows sparse_reshape stft threefry_generate threefry_split topk
trilu uniform unique
"""
_GENERIC_SCHEDULES = """
adaptive_pool bitpack concatenate conv2d_gemm_weight_transform conv2d_winograd_nnpack_weight_transform
conv2d_winograd_weight_transform conv3d_winograd_weight_transform injective lrn pad pool pool_grad
reduce roi_pool sparse_transpose transpose
"""  # noqa: E501 - one name

MODULES: dict[str, tuple[str, str, str]] = {
    "adreno": (
        "adreno",
        "concatenate conv2d conv2d_transpose conv2d_winograd_without_weight_transform",
        "adaptive_pool injective pool reduce",
    ),
    "arm_cpu": (
        "arm_cpu",
        "bitserial_conv2d concatenate conv1d conv2d conv2d_NCHWc"
        " conv2d_gemm_without_weight_transform conv2d_transpose"
        " conv2d_winograd_without_weight_transform depthwise_conv2d_NCHWc matmul",
        "injective pool reduce_cpu",
    ),
    "bifrost": ("bifrost", "conv2d conv2d_winograd_without_weight_transform dense", ""),
    "cuda": (
        "cuda",
        "all_class_nms argsort argwhere batch_matmul concatenate conv1d conv1d_transpose conv2d"
        " conv2d_backward_weight conv2d_transpose conv2d_winograd_without_weight_transform conv3d"
        " conv3d_transpose conv3d_winograd_without_weight_transform correlation cumprod cumsum"
        " deformable_conv2d dense dft einsum fast_softmax get_valid_counts invert_permutation"
        " layout_transform log_softmax matmul multibox_prior multibox_transform_loc nms proposal"
        " roi_align searchsorted softmax sort sparse_dense sparse_dense_padded sparse_reshape stft"
        " topk unique",
        "adaptive_pool injective lrn pool pool_grad reduce roi_pool transpose",
    ),
    "hexagon": (
        "hexagon",
        "batch_matmul conv2d conv2d_transpose dense softmax",
        "adaptive_pool concatenate injective pad pool reduce",
    ),
    "hls": (
        "hls",
        "bitserial_conv2d conv2d conv2d_NCHWc conv2d_transpose dense log_softmax softmax",
        "adaptive_pool concatenate injective pool reduce",
    ),
    "intel_graphics": ("intel_graphics", "conv2d conv2d_NCHWc", ""),
    "mali": ("mali", "conv2d conv2d_winograd_without_weight_transform dense", ""),
    "rocm": ("rocm", "batch_matmul conv2d dense log_softmax softmax", ""),
    "x86": (
        "cpu",
        "batch_matmul batch_norm bitserial_conv2d bitserial_dense concatenate conv1d conv2d"
        " conv2d_NCHWc conv2d_transpose conv2d_winograd_without_weight_transform conv3d"
        " conv3d_transpose dense dense_pack depthwise_conv2d_NCHWc fast_softmax log_softmax matmul"
        " roi_align scatter_nd softmax sparse_conv2d sparse_dense",
        "adaptive_pool injective pool reduce",
    ),
}
"""Module → the end of its names, its strategies, its schedules."""

_ODD_STRATEGIES = {
    ("arm_cpu", "schedule_bitserial_dense_arm_cpu"): ("bitserial_dense", "arm_cpu"),
    ("arm_cpu", "schedule_dense_arm_cpu"): ("dense", "arm_cpu"),
    ("cuda", "scatter_elements_cuda"): ("scatter_elements", "cuda"),
    ("cuda", "scatter_nd_cuda"): ("scatter_nd", "cuda"),
    ("rocm", "argsort_strategy_cuda"): ("argsort", "rocm"),
    ("rocm", "scatter_elements_cuda"): ("scatter_elements", "rocm"),
    ("rocm", "sort_strategy_cuda"): ("sort", "rocm"),
    ("rocm", "topk_strategy_cuda"): ("topk", "rocm"),
}
"""Names that do not follow the rule: (module, name) → operator and family."""

_REFUSED = {
    ("arm_cpu", "arm_cpu_tir_strategy"): (
        "schedules of TensorIR for Arm are chosen by the default schedule",
        "tilesmith.build and relay.build apply it",
    ),
    ("cuda", "judge_winograd"): (
        "it chooses between kernels for tensor cores, of which there are none here",
        "strategies list what there is: get_valid_implementations",
    ),
}


class StrategyNames:
    """Finds the names of one module of strategies: see `support.lazy.Finder`."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._names = _generic_names() if module == "generic" else _family_names(module)
        self._made: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """Return what a name stands for, the same object each time."""
        if name not in self._names:
            raise UnknownMemberError(f"relay.op.strategy.{self._module} has no '{name}'")
        if name not in self._made:
            self._made[name] = self._names[name]()
        return self._made[name]

    def public_names(self) -> list[str]:
        """Return all names."""
        return list(self._names)


def _generic_names() -> dict[str, Callable[[], Any]]:
    names: dict[str, Callable[[], Any]] = {
        "copy_if_identical": lambda: copy_if_identical,
        "get_auto_scheduler_rewritten_layout": lambda: rewritten_layout,
        "get_conv2d_in_channels": lambda: get_conv2d_in_channels,
        "get_conv2d_out_channels": lambda: get_conv2d_out_channels,
        "get_meta_schedule_original_shape": lambda: original_shape,
        "is_depthwise_conv2d": lambda: is_depthwise_conv2d,
        "naive_schedule": lambda: naive_schedule,
        "wrap_topi_compute": lambda: wrap_topi_compute,
        "wrap_topi_schedule": lambda: wrap_topi_schedule,
    }
    for name in WRAPPERS:
        if name not in ("conv2d_gemm", "conv2d_winograd_nnpack"):
            names[f"wrap_compute_{name}"] = partial(wrapper, name)
    for name in _GENERIC_STRATEGIES.split():
        names[f"{name}_strategy"] = partial(_generic_strategy, name)
    for name in _GENERIC_SCHEDULES.split():
        names[f"schedule_{name}"] = partial(_generic_schedule, name)
    return names


def _family_names(module: str) -> dict[str, Callable[[], Any]]:
    end, strategies, schedules = MODULES[module]
    names: dict[str, Callable[[], Any]] = {}
    for name in strategies.split():
        full = f"{name}_strategy_{end}"
        names[full] = partial(_strategy, name, module, full)
    for name in schedules.split():
        full = f"schedule_{name}" if name.endswith("_cpu") else f"schedule_{name}_{end}"
        names[full] = partial(_schedule, full, module, name)
    for (owner, odd), (operator, family) in _ODD_STRATEGIES.items():
        if owner == module:
            names[odd] = partial(_strategy, operator, family, odd)
    for (owner, refused), why in _REFUSED.items():
        if owner == module:
            names[refused] = partial(_refusal, refused, *why)
    if module == "arm_cpu":
        for name in ("conv2d_gemm", "conv2d_winograd_nnpack"):
            names[f"wrap_compute_{name}"] = partial(wrapper, name)
    return names


def _operator(strategy: str) -> Op | None:
    """Return the operator of a strategy, None if there is none."""
    resolve("tilesmith.relay.op")
    wanted = f"{strategy}_strategy"
    for name in Op.list_op_names():
        if strategy_name(name) == wanted and Op.get(name).spec is not None:
            return Op.get(name)
    return None


def _generic_strategy(name: str) -> Any:
    """Return the generic function of an operator's strategies."""
    op = _operator(name)
    if op is not None:
        return own_strategy(op)
    function = get_native_generic_func(f"{name}_strategy")
    if function.default is None:
        function.set_default(_refusal(f"{name}_strategy", *_no_operator(name)))
    return function


def _no_operator(name: str) -> tuple[str, str]:
    return (
        f"relay has no operator '{name}'",
        "register_strategy(name, function) states the strategy of an operator of your own",
    )


def _strategy(name: str, family: str, shown: str) -> Any:
    """Return the strategy of an operator for one family of targets."""
    op = _operator(name)
    if op is None:
        return _refusal(shown, *_no_operator(name))
    return OwnStrategy(op, family)


def _refusal(name: str, why: str, advice: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"{name}: {why}", notes=(advice,))

    refuse.__name__ = name
    refuse.__doc__ = "Raise UnsupportedError, which says what to use instead."
    return refuse


def _generic_schedule(name: str) -> Any:
    """Return the generic function of a schedule."""
    function = get_native_generic_func(f"schedule_{name}")
    if function.default is None:
        function.set_default(_schedule(f"schedule_{name}", "generic", name))
    return function


def _schedule(shown: str, family: str, name: str) -> Any:
    """Return a schedule as strategies take it, in the scope of its target."""
    found = schedule_of_family(family, "schedule_injective")

    def schedule(attrs: Any, outs: Any, target: Any) -> Any:
        with Target(target):
            return found(attrs, outs, target)

    schedule.__name__ = schedule.__qualname__ = shown
    schedule.__doc__ = f"Return the schedule of an operator like {name} for the target."
    if shown == "schedule_injective_arm_cpu":  # known with another name for what it ignores
        return lambda _, outs, target: schedule(_, outs, target)
    return schedule


def naive_schedule(_: Any, outs: Any, target: Any) -> Any:
    """Return the schedule with the loops as they are written, on CPUs.

    Raises UnsupportedError for GPUs, whose loops have to be bound to threads.
    """
    if "gpu" in Target(target).keys:
        raise UnsupportedError(
            f"the loops of a plain schedule cannot run on '{target}'",
            notes=("relay.op.strategy.generic.schedule_injective binds them to threads",),
        )
    outs = outs if isinstance(outs, (list, tuple)) else [outs]
    return te.create_schedule([one.op for one in outs])


def wrap_topi_schedule(topi_schedule: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return a schedule of TOPI, a function of tensors, as strategies take it."""

    def schedule(attrs: Any, outs: Any, target: Any) -> Any:
        with Target(target):
            return topi_schedule(outs)

    schedule.__name__ = getattr(topi_schedule, "__name__", "schedule")
    return schedule
