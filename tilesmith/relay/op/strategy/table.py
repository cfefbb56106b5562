"""Which functions of TOPI compute an operator, by its attributes: implementations beside the
static search.

The columns of a row: the strategy, what the call's attributes have to be, the wrapper with its
flags (`wrappers.py`), the function. `kind` tells convolutions apart: plain, depthwise, grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.relay.op.op_strategy import OpImplementation
from tilesmith.relay.op.strategy.convolutions import is_depthwise_conv2d
from tilesmith.relay.op.strategy.wrappers import wrapper
from tilesmith.support.lazy import resolve
from tilesmith.target import Target

__all__ = ["FAMILIES", "family_of", "listed_implementations", "schedule_of_family"]

LISTED_LEVEL = 5
"""The level of what is listed here: below the static search, and below users' implementations."""

_ROWS = """
argsort           |                                                        | argsort            | argsort
batch_matmul      |                                                        | batch_matmul need_out_dtype | nn.batch_matmul
batch_norm        |                                                        | batch_norm         | nn.batch_norm
concatenate       |                                                        | concat             | concatenate
conv1d            | data_layout=NCW kernel_layout=OIW kind=plain           | conv1d             | nn.conv1d_ncw
conv1d            | data_layout=NWC kernel_layout=WIO kind=plain           | conv1d             | nn.conv1d_nwc
conv1d            | data_layout=NCW kernel_layout=OIW kind=grouped         | group_conv1d       | nn.group_conv1d_ncw
conv1d            | data_layout=NWC kernel_layout=WIO kind=grouped         | group_conv1d       | nn.group_conv1d_nwc
conv1d_transpose  | data_layout=NCW kernel_layout=IOW kind=plain           | conv1d_transpose   | nn.conv1d_transpose_ncw
conv1d_transpose  | data_layout=NCW kernel_layout=IOW kind=grouped         | conv1d_transpose has_groups | nn.group_conv1d_transpose_ncw
conv2d            | data_layout=NCHW kernel_layout=OIHW kind=plain         | conv2d             | nn.conv2d_nchw
conv2d            | data_layout=NHWC kernel_layout=HWIO kind=plain         | conv2d             | nn.conv2d_nhwc
conv2d            | data_layout=HWCN kernel_layout=HWIO kind=plain         | conv2d             | nn.conv2d_hwcn
conv2d            | data_layout=NCHW kernel_layout=OIHW kind=depthwise     | conv2d             | nn.depthwise_conv2d_nchw
conv2d            | data_layout=NHWC kernel_layout=HWOI kind=depthwise     | conv2d need_kernel_layout | nn.depthwise_conv2d_nhwc
conv2d            | data_layout=NCHW kernel_layout=OIHW kind=grouped       | conv2d has_groups  | nn.group_conv2d_nchw
conv2d            | data_layout=NHWC kernel_layout=HWIO kind=grouped       | conv2d has_groups  | nn.group_conv2d_nhwc
conv2d_transpose  | data_layout=NCHW kernel_layout=IOHW kind=plain         | conv2d_transpose   | nn.conv2d_transpose_nchw
conv2d_transpose  | data_layout=NCHW kernel_layout=IOHW kind=grouped       | conv2d_transpose has_groups | nn.group_conv2d_transpose_nchw
conv3d            | data_layout=NCDHW kernel_layout=OIDHW                  | conv3d             | nn.conv3d_ncdhw
conv3d            | data_layout=NDHWC kernel_layout=DHWIO                  | conv3d             | nn.conv3d_ndhwc
conv3d_transpose  | data_layout=NCDHW kernel_layout=IODHW kind=plain       | conv3d_transpose   | nn.conv3d_transpose_ncdhw
conv3d_transpose  | data_layout=NCDHW kernel_layout=IODHW kind=grouped     | conv3d_transpose has_groups | nn.group_conv3d_transpose_ncdhw
correlation       | layout=NCHW                                            | correlation        | nn.correlation_nchw
cumprod           |                                                        | scanop             | cumprod
cumsum            |                                                        | scanop             | cumsum
deformable_conv2d | data_layout=NCHW kernel_layout=OIHW                    | deformable_conv2d  | nn.deformable_conv2d_nchw
deformable_conv2d | data_layout=NHWC kernel_layout=HWIO                    | deformable_conv2d  | nn.deformable_conv2d_nhwc
dense             |                                                        | dense              | nn.dense
dft               |                                                        | dft                | dft
dilation2d        | data_layout=NCHW kernel_layout=IHW                     | dilation2d         | image.dilation2d_nchw
dilation2d        | data_layout=NHWC kernel_layout=HWI                     | dilation2d         | image.dilation2d_nhwc
einsum            |                                                        | einsum             | einsum
fast_softmax      |                                                        | softmax            | nn.fast_softmax
invert_permutation |                                                       | invert_permutation | invert_permutation
layout_transform  |                                                        | layout_transform   | layout_transform
log_softmax       |                                                        | softmax            | nn.log_softmax
matmul            |                                                        | matmul             | nn.matmul
roi_align         | layout=NCHW                                            | roi_align          | vision.rcnn.roi_align_nchw
roi_align         | layout=NHWC                                            | roi_align          | vision.rcnn.roi_align_nhwc
scatter_elements  |                                                        | scatter_elements   | scatter_elements
scatter_nd        |                                                        | scatter_nd         | scatter_nd
searchsorted      |                                                        | searchsorted       | searchsorted
sliding_window    |                                                        | sliding_window     | sliding_window
softmax           |                                                        | softmax            | nn.softmax
sort              |                                                        | sort               | sort
sparse_add        |                                                        | sparse_add         | nn.sparse_add
sparse_dense      |                                                        | sparse_dense       | nn.sparse_dense
topk              |                                                        | topk               | topk
"""  # noqa: E501 - columns

FAMILIES = {
    "adreno": "adreno", "arm_cpu": "arm_cpu", "bifrost": "bifrost", "cpu": "x86", "cuda": "cuda",
    "gpu": "cuda", "hexagon": "hexagon", "hls": "hls", "intel_graphics": "intel_graphics",
    "mali": "mali", "rocm": "rocm",
}  # fmt: skip
"""Key of a target → the module of `topi` with its schedules."""


@dataclass(frozen=True)
class Row:
    """A function of TOPI that computes an operator, with the attributes that it is for."""

    when: tuple[tuple[str, str], ...]
    wrapper: str
    flags: tuple[str, ...]
    function: str

    def applies(self, attrs: Any, inputs: Sequence[Any]) -> bool:
        """Return whether the function is one for a call."""
        for name, wanted in self.when:
            found = _kind(attrs, inputs) if name == "kind" else attrs.get(name)
            if found != wanted:
                return False
        return True


def _read() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for line in _ROWS.strip().splitlines():
        strategy, when, wrapped, function = [part.strip() for part in line.split("|")]
        conditions = tuple([tuple(one.split("=")) for one in when.split()])
        name, *flags = wrapped.split()
        row = Row(conditions, name, tuple(flags), function)  # type: ignore[arg-type]
        rows.setdefault(f"{strategy}_strategy", []).append(row)
    return rows


TABLE = _read()
"""Name of a strategy → its rows."""


def _kind(attrs: Any, inputs: Sequence[Any]) -> str:
    """Return what kind of convolution a call is."""
    if attrs.groups == 1:
        return "plain"
    layouts = (attrs.data_layout, attrs.kernel_layout)
    if len(inputs[0].shape) == 4 and layouts in (("NCHW", "OIHW"), ("NHWC", "HWOI")):
        data, kernel = inputs[0].shape, inputs[1].shape
        if is_depthwise_conv2d(data, layouts[0], kernel, layouts[1], attrs.groups):
            return "depthwise"
    return "grouped"


def family_of(target: Any) -> str:
    """Return the module of `topi` whose schedules are for a target."""
    keys = Target(target).keys
    return next((FAMILIES[key] for key in keys if key in FAMILIES), "generic")


def listed_implementations(
    strategy: str, attrs: Any, inputs: Sequence[Any], target: Any, family: str = ""
) -> Iterator[OpImplementation]:
    """Yield what the table lists for a call."""
    for row in TABLE.get(strategy, ()):
        if row.applies(attrs, inputs):
            family = family or family_of(target)
            short = row.function.rpartition(".")[2]
            module, _, name = f"tilesmith.topi.{row.function}".rpartition(".")
            wrap = wrapper(row.wrapper)
            flags = dict.fromkeys(row.flags, True)
            function = resolve(f"{module}:{name}")
            compute = wrap(**flags) if short == "sliding_window" else wrap(function, **flags)
            schedule = schedule_of_family(family, f"schedule_{short}")
            yield OpImplementation(compute, schedule, f"{short}.{family}", LISTED_LEVEL)


def schedule_of_family(family: str, name: str) -> Callable[[Any, Any, Any], Any]:
    """Return the schedule ``name`` of a family as strategies take it; the general one of its
    devices where it has none of this name.
    """
    module = resolve(f"tilesmith.topi.{family}")
    found = getattr(module, name, None)
    if found is None:
        found = resolve("tilesmith.topi.generic:schedule_injective")
    return lambda attrs, outs, target: found(outs)
