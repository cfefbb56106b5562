"""gpu_report: counters, occupancy and predictions of kernels; checks of builds and of runs."""

import json
import linecache

import numpy as np
import pytest

import tilesmith
from tests.schedule_rules.intrinsics.test_gpu_script import product as matrix_product
from tests.tir.test_lockstep_matmul_property_script import scheduled
from tests.tir.test_lockstep_script import (
    atomics,
    barrier_in_a_branch,
    no_barrier,
    reverse,
    sum_by_shuffles,
    tail_without_guard,
)
from tilesmith import te
from tilesmith.inspect import gpu_report
from tilesmith.schedule_rules.intrinsics import cuda
from tilesmith.script import tir as T
from tilesmith.support.errors import (
    ConfigError,
    ExecutionError,
    OutOfBoundsError,
    TypeMismatchError,
    UnknownNameError,
    VerifyError,
)  # fmt: skip
from tilesmith.support.knobs import knobs
from tilesmith.target import Target
from tilesmith.target.gpu_machine import SM_LIMITS, gpu_limits, gpu_machine, occupancy, sm_limits
from tilesmith.tir.interpreter import run
from tilesmith.tir.schedule import Schedule


@T.prim_func
def column_reads(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32, 32), scope="shared")
    for i in range(32):
        S[i, tx] = A[i, tx]
    T.tvm_storage_sync("shared")
    for i in range(32):
        B[tx, i] = S[tx, i] * T.float32(2)


def test_the_counters_of_a_kernel_by_hand():
    report = gpu_report(column_reads, target="A100")
    assert report.is_clean and report.notes == ()
    (kernel,) = report.kernels
    assert kernel.name == "column_reads_kernel"
    assert (kernel.grid, kernel.block, kernel.threads) == ((1, 1, 1), (32, 1, 1), 32)
    assert (kernel.static_shared, kernel.dynamic_shared, kernel.barriers) == (4096, 0, 1)
    found = {(one.space, one.kind): one for one in kernel.accesses}
    assert found["global", "read"].transactions == 4 and found["global", "read"].wasted == 0
    write = found["global", "write"]
    assert (write.transactions, write.ideal, write.wasted) == (32, 4, 0.875)
    assert found["shared", "write"].degree == 1
    read = found["shared", "read"]
    assert (read.degree, read.transactions, read.ideal) == (32, 32, 1)
    assert kernel.bank_conflicts == (read,)
    assert "storage_align" in read.advice and "threadIdx.x" in write.advice
    assert kernel.flops == 1024 and kernel.operations == {"float32": 1024}
    assert kernel.requested_bytes == 8192 and kernel.sector_bytes == 32 * 32 * (4 + 32)
    assert kernel.footprint_bytes == 8192 and kernel.intensity == 1024 / 8192
    assert (kernel.wavefronts, kernel.ideal_wavefronts) == (32 + 32 * 32, 64)


def test_the_text_names_the_users_line_and_what_to_do():
    text = str(gpu_report(no_barrier, target="H100"))
    assert "✗ race in no_barrier_kernel" in text and "B[tx] = S[63 - tx]" in text
    assert "the other access: " in text and "tvm_storage_sync" in text
    text = str(gpu_report(column_reads))
    assert "No races" in text and "32-way conflict" in text and "88% wasted" in text
    assert "test_gpu_report_script.py:" in text and "occupancy" in text


def test_the_report_as_json_and_as_an_error():
    report = gpu_report(no_barrier)
    found = json.loads(report.to_json())
    assert found["findings"][0]["kind"] == "race" and found["machine"] == "A100"
    assert found["kernels"][0]["limited_by"] in found["kernels"][0]["times"]
    with pytest.raises(ExecutionError, match="race: thread"):
        report.raise_findings()
    gpu_report(reverse).raise_findings()


def test_given_arguments_are_used_and_left_as_they_are():
    a, b = np.zeros(64, "int32"), np.zeros(4, "int32")
    report = gpu_report(atomics, [a, b])
    write = next(one for one in report.kernels[0].accesses if one.kind == "write")
    assert write.transactions == 1 and b[0] == 0  # all add to one element


def test_a_schedule_of_a_product():
    report = gpu_report(scheduled(64, 64, 64, 16, 4, 8), target="cuda -arch=sm_90")
    assert report.is_clean and report.machine.name == "H100"
    (kernel,) = report.kernels
    assert kernel.flops == 2 * 64**3
    assert 0 < kernel.share_of_peak < 1 and kernel.seconds == max(kernel.times.values())


def softmax(rows, columns):
    a = te.placeholder((rows, columns), "float32", name="A")
    k = te.reduce_axis((0, columns), name="k")
    top = te.compute((rows,), lambda i: te.max(a[i, k], axis=k), name="top")
    r = te.reduce_axis((0, columns), name="r")
    total = te.compute((rows,), lambda i: te.sum(te.exp(a[i, r] - top[i]), axis=r), name="total")
    b = te.compute((rows, columns), lambda i, j: te.exp(a[i, j] - top[i]) / total[i], name="B")
    return te.create_prim_func([a, b])


@pytest.mark.parametrize("is_classic", [True, False])
def test_tensor_expressions_have_lines(is_classic):
    a = te.placeholder((32, 32), name="A")
    b = te.compute((32, 32), lambda i, j: a[j, i] * 2.0, name="B")  # strided
    if is_classic:
        s = te.create_schedule(b.op)
        s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
        s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
        program = tilesmith.lower(s, [a, b])
    else:
        program = Schedule(te.create_prim_func([a, b]))
        i, j = program.get_loops("B")
        program.bind(i, "blockIdx.x")
        program.bind(j, "threadIdx.x")
    report = gpu_report(program, compile_kernels=False)
    for access in report.kernels[0].accesses:
        path, _, line = access.place.rpartition(":")
        assert "# strided" in linecache.getline(path, int(line))


def test_a_softmax_with_reductions_over_threads():
    sch = Schedule(softmax(3, 70))
    for name in ("top", "total", "B"):
        i, k = sch.get_loops(sch.get_block(name))
        _, inner = sch.split(k, [None, 32])
        sch.bind(i, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
    report = gpu_report(sch, target="T4")
    assert report.is_clean, str(report)
    assert len(report.kernels) == 3


def test_a_tile_of_tensor_cores():
    sch = Schedule(matrix_product(32, 32, 32, "float16", "float32", False))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i, i1 = sch.split(i, [None, 16])
    j, j1 = sch.split(j, [None, 16])
    k, k1 = sch.split(k, [None, 16])
    sch.reorder(i, j, k, i1, j1, k1)
    sch.bind(sch.fuse(i, j), "blockIdx.x")
    names = cuda.get_wmma_intrin_group("shared", "global", "float16", "float32", False)
    reads = []
    for operand in (0, 1):
        shared = sch.cache_read(block, operand, "shared")
        sch.compute_at(shared, k)
        a, b = sch.get_loops(shared)[-2:]
        _, lane = sch.split(sch.fuse(a, b), [None, 32])
        sch.bind(lane, "threadIdx.x")
        reads.append(sch.cache_read(block, operand, f"wmma.matrix_{'ab'[operand]}"))
    store = sch.cache_write(block, 0, "wmma.accumulator")
    sch.reverse_compute_at(store, sch.get_loops(block)[0])
    init = sch.decompose_reduction(block, k)
    sch.tensorize(sch.get_loops(init)[-2], names["init"])
    for read, name in zip(reads, ("load_a", "load_b")):
        sch.tensorize(sch.get_loops(read)[-2], names[name])
    sch.tensorize(i1, names["compute"])
    sch.tensorize(sch.get_loops(store)[-2], names["store"])
    report = gpu_report(sch, target="A100")
    assert report.is_clean and "without counters" not in " ".join(report.notes), str(report)
    (kernel,) = report.kernels
    assert kernel.operations["tensor"] == 2 * 32**3


def test_shuffles_have_no_findings():
    assert gpu_report(sum_by_shuffles).is_clean


def test_what_lockstep_cannot_run_is_checked_thread_by_thread():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        tx = T.launch_thread("threadIdx.x", 4)
        vx = T.env_thread("vthread.x")
        with T.attr(vx, "virtual_thread", 2):
            A[tx] = T.Cast("float32", vx)

    report = gpu_report(func)
    assert report.kernels == () and "thread by thread" in report.notes[0]


def test_what_is_refused():
    @T.prim_func
    def host(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = T.float32(0)

    with pytest.raises(VerifyError, match="outside of all threads"):
        gpu_report(host)
    with pytest.raises(ConfigError, match="no target with kernels"):
        gpu_report(reverse, target="llvm")
    with pytest.raises(TypeMismatchError, match="takes a tir.Schedule"):
        gpu_report(3)


# Limits and occupancy.


def test_limits_are_those_of_verify_gpu_code():
    sch = scheduled(64, 64, 16, 8, 1, 8)
    assert gpu_report(sch, target="T4").violations == ()
    report = gpu_report(sch, target=Target("opencl -max_threads_per_block=32"))
    (found,) = report.violations
    assert found.text == "kernel 1: threads of a block: 64, max_threads_per_block is 32"
    assert "split" in found.advice and "✗ limit: kernel 1" in str(report)


def test_builds_refuse_kernels_that_do_not_fit():
    @T.prim_func
    def large(A: T.Buffer((2048,), "float32")):
        tx = T.launch_thread("threadIdx.x", 2048)
        A[tx] = T.float32(0)

    with pytest.raises(VerifyError, match="does not fit") as caught:
        tilesmith.build(large, target="nvptx")
    assert "threads of a block: 2048, max_threads_per_block is 1024" in str(caught.value)
    assert "smaller factors" in str(caught.value)


@pytest.mark.parametrize(
    "arch, threads, registers, shared, blocks, limited_by",
    [
        (70, 256, 32, 0, 8, ("threads", "registers")),
        (75, 256, 32, 0, 4, ("threads",)),
        (80, 256, 128, 0, 2, ("registers",)),
        (80, 128, 32, 48 * 1024, 3, ("shared memory",)),  # 164 KB / 49 KB
        (90, 32, 16, 0, 32, ("blocks",)),
        (86, 1024, 64, 0, 1, ("threads", "registers")),
        (80, 96, 40, 0, 16, ("registers",)),
        (90, 128, 32, 230 * 1024, 0, ("shared memory",)),
    ],
)
def test_occupancy(arch, threads, registers, shared, blocks, limited_by):
    found = occupancy(SM_LIMITS[arch], threads, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.warps == blocks * -(-threads // 32)


def test_machines():
    assert gpu_machine("h100").multiprocessors == 132
    assert gpu_machine(Target("cuda -arch=sm_90a")).name == "H100"
    assert gpu_machine(Target("cuda -arch=sm_75")).name == "T4"
    assert gpu_machine(Target("nvidia/nvidia-a100")).name == "A100"
    assert (
        sm_limits(88).arch == 87
        and gpu_limits(Target("cuda -arch=sm_75"))["max_shared_memory_per_block"] == 65536
    )
    with pytest.raises(UnknownNameError, match="no limits of sm_35"):
        gpu_machine(Target("cuda -arch=sm_35"))


# TILESMITH_CHECK_GPU.


@pytest.mark.parametrize(
    "func, error, message",
    [
        (barrier_in_a_branch, ExecutionError, "divergent barrier"),
        (tail_without_guard, OutOfBoundsError, "out of bounds|outside"),
    ],
)
def test_builds_are_checked(func, error, message):
    with knobs.override(check_gpu=True):
        tilesmith.build(reverse, target="nvptx")
        with pytest.raises(error, match=message):
            tilesmith.build(func, target="nvptx")


def test_runs_are_checked():
    a = np.zeros(64, "float32")
    run(no_barrier, a, a.copy())
    with knobs.override(check_gpu=True), pytest.raises(ExecutionError, match="race"):
        run(no_barrier, a, a.copy())


def test_what_was_not_run_is_not_clean():
    @T.prim_func
    def calls(A: T.Buffer((64,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        A[tx] = T.call_extern("float32", "somebodys_function", A[tx])

    report = gpu_report(calls, compile_kernels=False)
    assert report.not_run == ("calls",) and not report.findings and not report.is_clean
    assert "✗ not checked: the kernels of calls" in str(report) and "No races" not in str(report)
    assert json.loads(report.to_json())["not_run"] == ["calls"]
