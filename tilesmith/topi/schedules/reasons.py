"""Why some known names answer with an error, and what to use instead."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from tilesmith.support.errors import UnsupportedError
from tilesmith.topi.schedules.table import families, rows_of

__all__ = ["REASONS", "Reason", "reasons_by_name", "refuse"]


class Reason(NamedTuple):
    """What stands in the way, and what to do instead."""

    what: str
    advice: str


REASONS: dict[str, Reason] = {
    "amx": Reason(
        "it moves the tiles of Intel's AMX unit, which classic schedules cannot reserve",
        "schedule_dense_int8 goes by vectors; tile registers are used by tir.Schedule.tensorize",
    ),
    "autotvm": Reason(
        "it fills AutoTVM's configuration, and schedules here do not ask for one",
        "call the schedule without a configuration",
    ),
    "cudnn": Reason(
        "it calls cuDNN, which is not linked",
        "te.gradient of topi.nn.conv2d_nchw gives the gradient of the weights",
    ),
    "dsp": Reason(
        "it writes C sources of micro kernels for the DSP extension of Cortex-M",
        "conv2d_nhwc_dsp, dense_dsp, … and their schedules answer, with plain loops that target"
        " 'c -mcpu=cortex-m7' writes as C",
    ),
    "nnpack": Reason(
        "it calls NNPACK, which is not linked",
        "use topi.nn.conv2d_winograd_nchw with schedule_conv2d_nchw_winograd",
    ),
    "packed": Reason(
        "its packed weights have an order of their own",
        "use topi.nn.conv2d_NCHWc_int8, or the form for NCHW data",
    ),
    "packing": Reason(
        "it tells the tile sizes of micro kernels that the schedules here do not use",
        "the schedules take weights in tiles of any size: topi.nn.conv2d_gemm_weight_transform",
    ),
    "padded": Reason(
        "it prepares matrices that are padded to whole warps",
        "topi.nn.sparse_dense takes matrices of any size",
    ),
    "part": Reason(
        "it is one step of a published schedule, for stages that only that one makes",
        "call the schedule for outputs, schedule_…(outs): it schedules the whole program",
    ),
    "relay": Reason(
        "it rewrites operators of a graph for one layout or dtype",
        "relax.transform.ConvertLayout and topi.nn.conv2d_NCHWc do that on graphs here",
    ),
    "statements": Reason(
        "it writes the statements of one kernel for buffers that another function makes",
        "call the operator itself, without _ir",
    ),
    "tensorcore": Reason(
        "classic schedules do not drive the tensor cores yet",
        "tir.Schedule.tensorize does, with the intrinsics of tir.tensor_intrin.cuda;"
        " the schedule without _tensorcore goes by threads",
    ),
    "texture": Reason(
        "it keeps operands in textures, in blocks of four channels",
        "use topi.nn.conv2d_NCHWc or conv2d_nhwc with the schedules of topi.adreno",
    ),
    "thrust": Reason(
        "it calls Thrust, which is not linked",
        "use topi.sort, argsort, topk, cumsum or scatter_elements",
    ),
    "wmma": Reason(
        "classic schedules do not drive the tensor cores yet",
        "tir.Schedule.tensorize does, with the wmma intrinsics of tir.tensor_intrin.cuda",
    ),
}


def refuse(path: str, reason: str) -> NoReturn:
    """Raise the error of a known name."""
    what, advice = REASONS[reason]
    raise UnsupportedError(f"topi.{path}: {what}", notes=(advice,))


def reasons_by_name() -> dict[str, Reason]:
    """Return the reason of each name that answers with an error: topi.x86.dense:dense_mkl → …"""
    found = {}
    for family in families():
        for row in rows_of(family):
            if row.kind == "no":
                module = ".".join([part for part in ("topi", row.family, row.module) if part])
                found[f"{module}:{row.name}"] = REASONS[row.meaning]
    return found
