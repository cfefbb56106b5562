"""Choosing by target: schedules, and a comparison of what they compute with numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilesmith import te
from tilesmith.lowering import build
from tilesmith.runtime import nd
from tilesmith.support.errors import UnknownNameError
from tilesmith.support.lazy import resolve
from tilesmith.target import Target

__all__ = [
    "compare_numpy_tvm", "dispatch", "get_broadcast_schedule", "get_conv2d_nchw_implement",
    "get_elemwise_schedule", "get_injective_schedule", "get_reduce_schedule",
]  # fmt: skip


def dispatch(target: Any, dispatch_map: Mapping[str, Any]) -> Any:
    """Return the entry of the first of a target's keys that has one, else that of "generic"."""
    keys = Target(target).keys
    for key in (*keys, "generic"):
        if key in dispatch_map:
            return dispatch_map[key]
    raise UnknownNameError(
        f"there is no entry for the keys {', '.join(keys)}",
        notes=(f"there are: {', '.join(dispatch_map)}; 'generic' serves all others",),
    )


def _scheduler(target: Any, name: str, modules: Sequence[str]) -> Callable[..., Any]:
    """Return the schedule function of a name from the module of a target's keys."""
    table = {"generic": "generic", "cpu": "x86", "gpu": "cuda"} | {key: key for key in modules}
    module = dispatch(target, table)
    found: Callable[..., Any] = resolve(f"tilesmith.topi.{module}:{name}")
    return found


def get_injective_schedule(target: Any) -> Callable[..., Any]:
    """Return the function that schedules elementwise programs for a target."""
    return _scheduler(target, "schedule_injective", ("arm_cpu", "hls", "hexagon"))


def get_reduce_schedule(target: Any) -> Callable[..., Any]:
    """Return the function that schedules reductions for a target."""
    return _scheduler(target, "schedule_reduce", ("hls", "hexagon"))


get_broadcast_schedule = get_injective_schedule
get_elemwise_schedule = get_injective_schedule


def get_conv2d_nchw_implement(target: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the convolution of NCHW data for a target, and the function that schedules it."""
    packed = "conv2d_nchw_spatial_pack"
    names = {
        "generic": ("nn:conv2d_nchw", "generic:schedule_conv2d_nchw"),
        "cpu": ("x86:conv2d_nchw", "x86:schedule_conv2d_nchw"),
        "arm_cpu": (f"arm_cpu:{packed}", f"arm_cpu:schedule_{packed}"),
        "gpu": ("cuda:conv2d_nchw", "cuda:schedule_conv2d_nchw"),
        "mali": (f"mali:{packed}", f"mali:schedule_{packed}"),
        "bifrost": (f"bifrost:{packed}", f"bifrost:schedule_{packed}"),
        "intel_graphics": ("intel_graphics:conv2d_nchw", "intel_graphics:schedule_conv2d_nchw"),
        "hls": ("nn:conv2d_nchw", "hls:schedule_conv2d_nchw"),
    }
    compute, schedule = dispatch(target, names)
    return resolve("tilesmith.topi." + compute), resolve("tilesmith.topi." + schedule)


def compare_numpy_tvm(
    inputs: Sequence[np.ndarray],
    output: np.ndarray,
    target: Any,
    device: Any,
    compute: Callable[..., Any],
    schedule: Callable[..., Any],
) -> None:
    """Raise AssertionError unless a scheduled compute of some inputs gives an expected output."""
    tensors = [te.placeholder(one.shape, str(one.dtype), f"x{k}") for k, one in enumerate(inputs)]
    result = compute(*tensors)
    with Target(target):
        made = schedule([result])
    function = build(made, [*tensors, result], target)
    got = nd.array(np.zeros(output.shape, result.dtype.numpy()), device)
    function(*[nd.array(one, device) for one in inputs], got)
    np.testing.assert_allclose(got.numpy(), output, atol=1e-4, rtol=1e-4)
