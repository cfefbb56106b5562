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
    "assembly": Reason(
        "it is a micro kernel of Arm instructions, written for one layout of packed operands",
        "topi.arm_cpu's schedules go by vectors; the dot products of Arm are intrinsics of"
        " tir.tensor_intrin.arm_cpu, for tir.Schedule.tensorize",
    ),
    "autotvm": Reason(
        "it fills AutoTVM's configuration, and schedules here do not ask for one",
        "call the schedule without a configuration",
    ),
    "cudnn": Reason(
        "it calls cuDNN, which is not linked",
        "use the operator of topi.nn with schedule_conv2d_nchw, schedule_softmax, …",
    ),
    "dp4a": Reason(
        "the instruction dp4a has no tensor intrinsic of tensor expressions here",
        "tir.Schedule.tensorize with the intrinsics of tir.tensor_intrin.cuda",
    ),
    "dsp": Reason(
        "it is made of micro kernels for the DSP extension of Cortex-M, as C sources",
        "use the operator of topi.nn with generic schedules and target 'c -mcpu=cortex-m7'",
    ),
    "miopen": Reason(
        "it calls MIOpen, which is not linked",
        "use topi.nn.conv2d_nchw with topi.cuda.schedule_conv2d_nchw under the rocm target",
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
        "it belongs to a product whose weights were packed by another function before",
        "use topi.nn.conv2d_nhwc on plain weights; tir.Schedule.transform_layout packs them",
    ),
    "padded": Reason(
        "it is a variant for matrices that are padded to whole warps",
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
    "rocblas": Reason(
        "it calls rocBLAS, which is not linked",
        "use topi.nn.dense or batch_matmul with topi.cuda's schedules under the rocm target",
    ),
    "saturating": Reason(
        "it adds in 16 bits, where sums of products of bytes saturate",
        "dot_16x1x16_uint8_int8_int32 adds in 32 bits",
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
