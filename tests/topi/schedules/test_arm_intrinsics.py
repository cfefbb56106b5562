"""Tensor intrinsics of topi.arm_cpu: instructions on every machine, results where qemu is."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.emulated import Program, needs
from tilesmith import te, topi
from tilesmith.ir import IRModule
from tilesmith.support.errors import ScheduleError

TARGET = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod,+i8mm"
ARM = topi.arm_cpu.tensor_intrin


def rows_times(rows, columns, depth, dtype, sums):
    """``C[i, j] = sum of A[i, k] * B[j, k]``, with its references' shapes."""
    A, B = te.placeholder((rows, depth), dtype, "A"), te.placeholder((columns, depth), dtype, "B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute(
        (rows, columns),
        lambda i, j: te.sum(A[i, k].astype(sums) * B[j, k].astype(sums), axis=k),
        name="C",
    )
    return A, B, C


def dot(intrinsic, dtype, sums, lanes=4):
    A, B, C = rows_times(3, 16, 12, dtype, sums)
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    jo, ji = s[C].split(j, lanes)
    ko, ki = s[C].split(C.op.reduce_axis[0], 4)
    s[C].reorder(i, jo, ko, ji, ki)
    # the rows of four bytes have to lie side by side
    copy = s.cache_read(B, "global", [C])
    s[copy].compute_at(s[C], ko)
    s[C].tensorize(ji, intrinsic())
    return s, (A, B, C), lambda a, b: a @ b.T


def tiles(intrinsic, dtype, size, depth):
    A, B, C = rows_times(8, 8, 32, dtype, "int32")
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(*C.op.axis, size, size)
    ko, ki = s[C].split(C.op.reduce_axis[0], depth)
    s[C].reorder(io, jo, ko, ii, ji, ki)
    if size == 4:
        copy = s.cache_read(B, "global", [C])
        s[copy].compute_at(s[C], ko)
    s[C].tensorize(ii, intrinsic(dtype))
    return s, (A, B, C), lambda a, b: a @ b.T


def rows_by_16(dtype):
    A, B = te.placeholder((6, 32), dtype, "A"), te.placeholder((8, 16, 4), dtype, "B")
    k = te.reduce_axis((0, 32), name="k")
    C = te.compute(
        (6, 16),
        lambda i, j: te.sum(A[i, k].astype("int32") * B[k // 4, j, k % 4].astype("int32"), axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], 3)
    ko, ki = s[C].split(C.op.reduce_axis[0], 16)
    s[C].reorder(io, ko, ii, C.op.axis[1], ki)
    s[C].tensorize(ii, ARM.gemm_acc_nx16_int8_int8_int32(dtype, 3))
    return s, (A, B, C), lambda a, b: a @ b.transpose(0, 2, 1).reshape(32, 16)


def groups_of_16(dtype, unroll):
    A, B = te.placeholder((2, 8, 16), dtype, "A"), te.placeholder((2, 12, 16), dtype, "B")
    k = te.reduce_axis((0, 32), name="k")
    C = te.compute(
        (8, 12),
        lambda i, j: te.sum(
            A[k // 16, i, k % 16].astype("int32") * B[k // 16, j, k % 16].astype("int32"), axis=k
        ),
        name="C",
    )
    s = te.create_schedule(C.op)
    _, _, ii, _ = s[C].tile(*C.op.axis, 4, 4)
    s[C].tensorize(ii, ARM.gemm_4x4_int8_int8_int32(8, 12, 32, unroll, dtype))
    return s, (A, B, C), lambda a, b: np.einsum("gik,gjk->ij", a, b)


def scaled_rows():
    A, B = te.placeholder((5, 16), "int16", "A"), te.placeholder((5,), "int16", "B")
    k = te.reduce_axis((0, 5), name="k")
    C = te.compute(
        (16,),
        lambda i: te.sum(A[k, i].astype("int32") * B[k].astype("int32"), axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], 8)
    ko, ki = s[C].split(C.op.reduce_axis[0], 1)
    s[C].reorder(io, ko, ii, ki)
    s[C].tensorize(ii, ARM.smlal_int16_int32())
    return s, (A, B, C), lambda a, b: b @ a


PROGRAMS = {
    "neon": (lambda: dot(ARM.dot_int8_int8_int32_neon, "int8", "int32"), "saddlp"),
    "sdot": (
        lambda: dot(lambda: ARM.dot_int8_int8_int32_neon_82(4, "int"), "int8", "int32"), "sdot"
    ),
    "udot": (
        lambda: dot(lambda: ARM.dot_int8_int8_int32_neon_82(8), "uint8", "uint32", 8), "udot"
    ),
    "sdot_4x4": (lambda: tiles(ARM.gemm_acc_4x4_int8_int8_int32, "int8", 4, 4), "sdot"),
    "udot_4x4": (lambda: tiles(ARM.gemm_acc_4x4_int8_int8_int32, "uint8", 4, 4), "udot"),
    "smmla": (lambda: tiles(ARM.gemm_acc_2x2_int8_int8_int32, "int8", 2, 8), "smmla"),
    "ummla": (lambda: tiles(ARM.gemm_acc_2x2_int8_int8_int32, "uint8", 2, 8), "ummla"),
    "sdot_nx16": (lambda: rows_by_16("int8"), "sdot"),
    "udot_nx16": (lambda: rows_by_16("uint8"), "udot"),
    "smull_4x4": (lambda: groups_of_16("int8", 1), "smull"),
    "umull_4x4": (lambda: groups_of_16("uint8", 0), "umull"),
    "smlal": (scaled_rows, "smlal"),
}  # fmt: skip


@pytest.fixture(scope="module")
def module():
    found = {}
    for name, (make, _) in PROGRAMS.items():
        s, args, _ = make()
        found[name] = ts.lower(s, list(args), name=name)[name]
    return ts.build(IRModule(found), target=TARGET)


def test_each_program_is_made_of_its_instruction(module):
    text = module.get_source("asm")
    for name, (_, instruction) in PROGRAMS.items():
        begin = text.index(f"\n{name}:")
        assert instruction in text[begin : text.index(".cfi_endproc", begin)], name


@needs("aarch64")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_in_qemu(module, tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp() / "arm_intrinsics"
    folder.mkdir(exist_ok=True)
    program = Program(folder, "aarch64", lambda: module, list(PROGRAMS))
    _, args, expected = PROGRAMS[name][0]()
    random = np.random.default_rng(0)
    a, b = [
        random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
        for kind, shape in [(str(one.dtype), [int(n) for n in one.shape]) for one in args[:2]]
    ]
    c = np.full([int(n) for n in args[2].shape], 77, str(args[2].dtype))
    *_, got = program.run(name, (a, b, c))
    np.testing.assert_array_equal(got, expected(a.astype(c.dtype), b.astype(c.dtype)))


def test_a_word_of_a_vector_is_repeated():
    A = te.placeholder((16,), "int8", "A")
    out = ts.tir.decl_buffer((16,), "int8", "B")
    B = te.extern(
        (16,), [A],
        lambda ins, outs: outs[0].vstore(
            [0], ARM.select_word(ins[0].vload([0], "int8x16"), 2, "int8x16")
        ),
        dtype="int8", name="B", out_buffers=[out],
    )  # fmt: skip
    a, found = np.arange(16, dtype="int8"), ts.nd.array(np.zeros(16, "int8"))
    ts.build(te.create_schedule(B.op), [A, B], "llvm")(ts.nd.array(a), found)
    np.testing.assert_array_equal(found.numpy(), np.tile(a[8:12], 4))


@pytest.mark.parametrize("make, message", [
    (lambda: ARM.dot_int8_int8_int32_neon_82(6), "6 lanes"),
    (lambda: ARM.gemm_acc_4x4_int8_int8_int32("int16"), "operands of these intrinsics are bytes"),
    (lambda: ARM.gemm_4x4_int8_int8_int32(4, 4, 24, 1, "int8"), "groups of 16 bytes"),
])  # fmt: skip
def test_sizes_that_no_instruction_has_are_refused(make, message):
    with pytest.raises(ScheduleError, match=message):
        make()
