"""Which stages are inlined, where the others are computed, and by which loops."""

from __future__ import annotations

import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.target import Target
from tilesmith.te.schedule import AttachType
from tilesmith.tir.expr import IterVar
from tilesmith.topi import nn

AVX512 = Target("llvm -mcpu=skylake-avx512 -num-cores=2")


def tensor(*shape, dtype="float32"):
    return te.placeholder(shape, dtype, name="x")


def scheduled(result, target=AVX512):
    outs = result if isinstance(result, list) else [result]
    module = topi.cuda if "gpu" in target.keys else topi.x86
    with target:
        return module.schedule_injective(outs)


def kinds(stage):
    """The kinds of loops of a stage, from outside to inside."""
    words = {
        IterVar.Parallelized: "parallel",
        IterVar.Vectorized: "vector",
        IterVar.Unrolled: "unroll",
        IterVar.CommReduce: "reduce",
    }
    found = []
    for axis in stage.leaf_iter_vars:
        attributes = stage.iter_var_attrs.get(axis)
        thread = attributes.bind_thread if attributes else None
        kind = attributes.iter_type if attributes else axis.iter_type
        found.append(thread.thread_tag if thread is not None else words.get(kind, "serial"))
    return found


def stages(sch):
    return {stage.origin_op.name: stage for stage in sch.stages}


@pytest.mark.parametrize(
    "shape, loops",
    [
        ((4, 16), ["serial", "vector"]),  # little work: no threads are woken
        ((512, 256), ["parallel", "serial", "vector"]),
        ((4, 65536), ["parallel", "vector"]),
        ((4, 65537), ["parallel", "serial", "vector"]),  # the last vector is peeled off
        ((512, 130), ["parallel", "serial", "vector"]),
        ((8192, 7), ["parallel", "vector"]),  # one short vector
        ((70001,), ["parallel", "vector"]),
    ],
)
def test_loops_of_elementwise_stages(shape, loops):
    result = topi.exp(tensor(*shape))
    assert kinds(scheduled(result)[result]) == loops


@pytest.mark.parametrize(
    "mcpu, dtype, lanes",
    [
        ("skylake-avx512", "float32", 16),
        ("haswell", "float32", 8),
        ("x86-64", "float32", 4),
        ("skylake-avx512", "float64", 8),
        ("skylake-avx512", "int8", 64),
    ],
)
def test_vectors_fill_registers_of_the_target(mcpu, dtype, lanes):
    result = topi.add(tensor(8, 1024, dtype=dtype), tensor(8, 1024, dtype=dtype))
    sch = scheduled(result, Target(f"llvm -mcpu={mcpu}"))
    split = sch[result].relations[0]
    assert int(split.factor) == lanes


def test_cheap_stages_are_inlined_and_expensive_ones_are_not_repeated():
    x = tensor(64, 256)
    cheap = topi.add(x, 1.0)
    expensive = topi.exp(cheap)
    result = topi.divide(expensive, topi.add(expensive, 1.0))
    found = stages(scheduled(result))
    assert found["T_add"].attach_type == AttachType.INLINE
    assert found["T_exp"].attach_type == AttachType.SCOPE
    assert found["T_exp"].attach_stage is found["T_divide"]


def test_padding_is_computed_before_the_window_that_reads_it_often():
    result = nn.relu(nn.conv2d_nchw(tensor(1, 16, 32, 32), tensor(32, 16, 3, 3), 1, 1, 1))
    found = stages(scheduled(result))
    assert found["pad_temp"].attach_type == AttachType.GROUP_ROOT
    product = found["conv2d_nchw"]
    assert product.attach_stage is found["compute"]
    assert product.scope == "local"
    assert kinds(product)[-5:] == ["reduce", "reduce", "reduce", "unroll", "vector"]


def test_products_along_the_memory_of_operands_add_vectors_of_partial_results():
    result = nn.dense(tensor(64, 512), tensor(64, 512))
    sch = scheduled(result)
    partials = [stage for stage in sch.stages if ".rf" in stage.name]
    assert len(partials) == 2  # sixteen partial results, then four
    assert kinds(partials[0])[-1] == kinds(partials[1])[-1] == "vector"
    assert all(stage.attach_stage is sch[result] for stage in partials)


def test_rows_of_a_softmax_are_computed_together():
    result = nn.softmax(tensor(64, 1000))
    sch = scheduled(result)
    inside = [stage for stage in sch.stages if stage.attach_type == AttachType.SCOPE]
    assert {stage.origin_op.name for stage in inside} >= {
        "T_softmax_maxelem", "T_softmax_exp", "T_softmax_expsum",
    }  # fmt: skip
    assert kinds(sch[result])[0] == "parallel"


def test_few_results_are_reduced_by_parts():
    x = tensor(1 << 20)
    k = te.reduce_axis((0, 1 << 20), name="k")
    result = te.compute((1,), lambda i: te.sum(x[k], axis=k), name="total")
    sch = scheduled(result)
    assert ["parallel" in kinds(stage) for stage in sch.stages].count(True) == 1


def test_large_operands_are_copied_by_columns():
    result = topi.matmul(tensor(1024, 1024), tensor(1024, 1024))
    sch = scheduled(result)
    copies = [stage for stage in sch.stages if "global" in stage.name]
    assert len(copies) == 1
    assert copies[0].attach_stage is sch[result]


def test_extern_operations_stay():
    result = topi.exp(topi.sort(topi.negative(tensor(5, 33))))
    found = stages(scheduled(result))
    assert found["T_negative"].attach_type == AttachType.GROUP_ROOT  # no expression reads it
    assert kinds(found["T_exp"])[-1] == "vector"


CUDA = Target("cuda")


def test_threads_of_elementwise_stages():
    result = topi.exp(tensor(64, 130))
    assert kinds(scheduled(result, CUDA)[result]) == ["blockIdx.x", "threadIdx.x"]
    large = topi.exp(tensor(1 << 26))
    assert kinds(scheduled(large, CUDA)[large]) == ["blockIdx.x", "threadIdx.x", "serial"]


@pytest.mark.parametrize("most, expected", [(1024, 256), (128, 128)])
def test_threads_keep_the_limit_of_the_target(most, expected):
    result = topi.exp(tensor(64, 1300))
    sch = scheduled(result, Target(f"opencl -max_num_threads={most}"))
    assert int(sch[result].relations[-1].factor) == expected


def test_long_reductions_go_across_threads():
    result = topi.sum(tensor(64, 1000), 1)
    sch = scheduled(result, CUDA)
    assert kinds(sch[result]) == ["blockIdx.x", "threadIdx.x"]
    assert sch[result].store_predicate is not None


def test_products_share_operands_and_take_in_the_padding():
    result = nn.relu(nn.conv2d_nchw(tensor(1, 16, 32, 32), tensor(32, 16, 3, 3), 1, 1, 1))
    sch = scheduled(result, CUDA)
    shared = [stage for stage in sch.stages if stage.scope == "shared"]
    assert len(shared) == 2
    assert "pad_temp" in {stage.origin_op.name for stage in shared}
    assert {"threadIdx.x", "threadIdx.y", "blockIdx.x", "blockIdx.y"} <= set(kinds(sch[result]))


def test_users_may_go_on_scheduling():
    """What a schedule function returns is a schedule like any other."""
    a = te.placeholder((64, 64), name="a")
    b = topi.exp(topi.add(a, 1.0))
    sch = te.create_schedule(b.op)
    topi.x86.schedule_injective_from_existing(sch, b)
    sch[b.op.input_tensors[0]].compute_inline()
    outer = sch[b].leaf_iter_vars[0]
    sch[b].pragma(outer, "auto_unroll_max_step", 4)
    text = str(ts.lower(sch, [a, b], simple_mode=True))
    assert "T.vectorized" in text and "T_add" not in text
