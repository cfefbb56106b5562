"""The loops that each primitive of classic schedules gives: the lowered text of small programs."""

# ruff: noqa: E501

from textwrap import dedent

import pytest

from tilesmith import lower, te
from tilesmith.ir.transform import PassContext

A = te.placeholder((8, 6), name="A")
B = te.placeholder((8, 6), name="B")


def add():
    C = te.compute((8, 6), lambda i, j: A[i, j] + B[i, j], name="C")
    return C, te.create_schedule(C.op)


def row_sum():
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="C")
    return C, te.create_schedule(C.op)


def chain():
    D = te.compute((8, 6), lambda i, j: A[i, j] * 2.0, name="D")
    C = te.compute((8, 6), lambda i, j: D[i, j] + B[i, j], name="C")
    return D, C, te.create_schedule(C.op)


def loops(s, args, simple_mode=True):
    """The lines of the lowered function below its header, without flat views of parameters."""
    text = lower(s, args, simple_mode=simple_mode)["main"].script()
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if "func_attr" in line)
    kept = [line for line in lines[start + 1 :] if "_1 = T.decl_buffer" not in line]
    return dedent("\n".join(kept)).strip()


def split_factor():
    C, s = add()
    s[C].split(C.op.axis[1], factor=4)
    return s, [A, B, C]


def split_nparts():
    C, s = add()
    s[C].split(C.op.axis[0], nparts=3)
    return s, [A, B, C]


def split_longer_than_the_loop():
    C, s = add()
    s[C].split(C.op.axis[1], factor=16)
    return s, [A, B, C]


def fuse():
    C, s = add()
    s[C].fuse(*C.op.axis)
    return s, [A, B, C]


def reorder():
    C, s = add()
    i, j = C.op.axis
    s[C].reorder(j, i)
    return s, [A, B, C]


def tile():
    C, s = add()
    s[C].tile(*C.op.axis, 4, 3)
    return s, [A, B, C]


def kinds():
    C, s = add()
    i, j = C.op.axis
    outer, inner = s[C].split(i, factor=2)
    s[C].parallel(outer)
    s[C].unroll(inner)
    s[C].vectorize(j)
    return s, [A, B, C]


def reduction():
    C, s = row_sum()
    return s, [A, C]


def reduction_outside():
    C, s = row_sum()
    (i,), (k,) = C.op.axis, C.op.reduce_axis
    ko, ki = s[C].split(k, factor=2)
    s[C].reorder(ko, i, ki)
    return s, [A, C]


def compute_at():
    D, C, s = chain()
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[D].compute_at(s[C], outer)
    return s, [A, B, C]


def compute_at_with_guard():
    D, C, s = chain()
    outer, _ = s[C].split(C.op.axis[0], factor=3)
    s[D].compute_at(s[C], outer)
    return s, [A, B, C]


def compute_inline():
    D, C, s = chain()
    s[D].compute_inline()
    return s, [A, B, C]


def storage_align():
    D, C, s = chain()
    s[D].storage_align(D.op.axis[0], 8, 1)
    return s, [A, B, C]


def bind():
    C, s = add()
    i, j = C.op.axis
    s[C].bind(i, te.thread_axis("blockIdx.x"))
    s[C].bind(j, te.thread_axis("threadIdx.x"))
    return s, [A, B, C]


def bind_a_reduction():
    C, s = row_sum()
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=2)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(ki, te.thread_axis("threadIdx.x"))
    return s, [A, C]


def pragma():
    C, s = row_sum()
    s[C].pragma(C.op.axis[0], "auto_unroll_max_step", 8)
    return s, [A, C]


def debug_skip_region():
    C, s = add()
    s[C].pragma(C.op.axis[1], "debug_skip_region", True)
    return s, [A, B, C]


def prefetch():
    C, s = row_sum()
    s[C].prefetch(A, C.op.axis[0], 1)
    return s, [A, C]


def store_predicate():
    C, s = row_sum()
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=2)
    tx = te.thread_axis("threadIdx.x")
    s[C].bind(ki, tx)
    s[C].set_store_predicate(tx.var.equal(0))
    return s, [A, C]


LOWERED = {
    split_factor: """
        for i, j_outer, j_inner in T.grid(8, 2, 4):
            if T.likely(j_outer * 4 + j_inner < 6):
                C_1[i * 6 + j_outer * 4 + j_inner] = A_1[i * 6 + j_outer * 4 + j_inner] + B_1[i * 6 + j_outer * 4 + j_inner]""",
    split_nparts: """
        for i_outer, i_inner in T.grid(3, 3):
            if T.likely(i_outer * 3 + i_inner < 8):
                for j in range(6):
                    C_1[i_outer * 18 + i_inner * 6 + j] = A_1[i_outer * 18 + i_inner * 6 + j] + B_1[i_outer * 18 + i_inner * 6 + j]""",
    split_longer_than_the_loop: """
        for i, j_inner in T.grid(8, 6):
            C_1[i * 6 + j_inner] = A_1[i * 6 + j_inner] + B_1[i * 6 + j_inner]""",
    fuse: """
        for i_j_fused in range(48):
            C_1[i_j_fused] = A_1[i_j_fused] + B_1[i_j_fused]""",
    reorder: """
        for j, i in T.grid(6, 8):
            C_1[i * 6 + j] = A_1[i * 6 + j] + B_1[i * 6 + j]""",
    tile: """
        for i_outer, j_outer, i_inner, j_inner in T.grid(2, 2, 4, 3):
            C_1[i_outer * 24 + i_inner * 6 + j_outer * 3 + j_inner] = A_1[i_outer * 24 + i_inner * 6 + j_outer * 3 + j_inner] + B_1[i_outer * 24 + i_inner * 6 + j_outer * 3 + j_inner]""",
    kinds: """
        for i_outer in T.parallel(4):
            for i_inner in T.unroll(2):
                for j in T.vectorized(6):
                    C_1[i_outer * 12 + i_inner * 6 + j] = A_1[i_outer * 12 + i_inner * 6 + j] + B_1[i_outer * 12 + i_inner * 6 + j]""",
    reduction: """
        for i in range(8):
            C[i] = T.float32(0.0)
            for k in range(6):
                C[i] = C[i] + A_1[i * 6 + k]""",
    reduction_outside: """
        for i in range(8):
            C[i] = T.float32(0.0)
        for k_outer, i, k_inner in T.grid(3, 8, 2):
            C[i] = C[i] + A_1[i * 6 + k_outer * 2 + k_inner]""",
    compute_at: """
        for i_outer in range(2):
            D = T.decl_buffer((24,))
            for i, j in T.grid(4, 6):
                D[i * 6 + j] = A_1[i_outer * 24 + i * 6 + j] * T.float32(2.0)
            for i_inner, j in T.grid(4, 6):
                C_1[i_outer * 24 + i_inner * 6 + j] = D[i_inner * 6 + j] + B_1[i_outer * 24 + i_inner * 6 + j]""",
    compute_at_with_guard: """
        for i_outer in range(3):
            D = T.decl_buffer((18,))
            for i in range(3):
                if T.likely(i_outer * 3 + i < 8):
                    for j in range(6):
                        D[i * 6 + j] = A_1[i_outer * 18 + i * 6 + j] * T.float32(2.0)
            for i_inner in range(3):
                if T.likely(i_outer * 3 + i_inner < 8):
                    for j in range(6):
                        C_1[i_outer * 18 + i_inner * 6 + j] = D[i_inner * 6 + j] + B_1[i_outer * 18 + i_inner * 6 + j]""",
    compute_inline: """
        for i, j in T.grid(8, 6):
            C_1[i * 6 + j] = A_1[i * 6 + j] * T.float32(2.0) + B_1[i * 6 + j]""",
    storage_align: """
        D = T.decl_buffer((72,))
        for i, j in T.grid(8, 6):
            D[i * 9 + j] = A_1[i * 6 + j] * T.float32(2.0)
        for i, j in T.grid(8, 6):
            C_1[i * 6 + j] = D[i * 9 + j] + B_1[i * 6 + j]""",
    bind: """
        blockIdx_x = T.launch_thread("blockIdx.x", 8)
        threadIdx_x = T.launch_thread("threadIdx.x", 6)
        C_1[blockIdx_x * 6 + threadIdx_x] = A_1[blockIdx_x * 6 + threadIdx_x] + B_1[blockIdx_x * 6 + threadIdx_x]""",
    bind_a_reduction: """
        blockIdx_x = T.launch_thread("blockIdx.x", 8)
        threadIdx_x = T.launch_thread("threadIdx.x", 2)
        reduce_temp = T.decl_buffer((1,), scope="local")
        normal_reduce_temp = T.decl_buffer((1,), scope="local")
        normal_reduce_temp[0] = T.float32(0.0)
        for k_outer in range(3):
            normal_reduce_temp[0] = normal_reduce_temp[0] + A_1[blockIdx_x * 6 + k_outer * 2 + threadIdx_x]
        with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
            T.tvm_thread_allreduce(T.uint32(1), normal_reduce_temp[0], T.bool(True), reduce_temp[0], threadIdx_x)
        C[blockIdx_x] = reduce_temp[0]""",
    pragma: """
        T.attr(0, "pragma_auto_unroll_max_step", 8)
        for i in range(8):
            C[i] = T.float32(0.0)
            for k in range(6):
                C[i] = C[i] + A_1[i * 6 + k]""",
    debug_skip_region: """
        T.evaluate(0)""",
    prefetch: """
        for i in range(8):
            T.prefetch(T.address_of(A_1[i * 6 + 6]), 0, 3, 1)
            C[i] = T.float32(0.0)
            for k in range(6):
                C[i] = C[i] + A_1[i * 6 + k]""",
}


@pytest.mark.parametrize("program", LOWERED, ids=lambda program: program.__name__)
def test_each_primitive_gives_its_loops(program):
    assert loops(*program()) == dedent(LOWERED[program]).strip()


def test_a_store_predicate_chooses_the_threads_that_store():
    text = loops(*store_predicate())
    assert text.endswith("if threadIdx_x == 0:\n        C[i] = reduce_temp[0]")


def test_a_loop_of_one_iteration_can_be_kept():
    C = te.compute((1, 3), lambda i, j: A[i, j], name="C")
    s = te.create_schedule(C.op).normalize()
    bounds = te.schedule.InferBound(s)
    assert "for j in range(3)" in str(te.schedule.ScheduleOps(s, bounds))
    assert "for i, j in T.grid(1, 3)" in str(te.schedule.ScheduleOps(s, bounds, True))


def test_full_lowering_unrolls_and_vectorizes():
    text = loops(*kinds(), simple_mode=False)
    assert "T.unroll" not in text and "T.vectorized" not in text
    assert "C_1[i_outer * 12 + 6:" in text


def test_added_passes_see_pragmas_that_nobody_else_knows():
    C, s = add()
    s[C].pragma(C.op.axis[0], "dma_copy")
    seen = []
    with PassContext(config={"tir.add_lower_pass": [(1, lambda f, *_: seen.append(str(f)) or f)]}):
        lower(s, [A, B, C])
    assert "pragma_dma_copy" in seen[0]
