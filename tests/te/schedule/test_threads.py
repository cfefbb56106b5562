"""Classic schedules on threads: bound loops, memory that threads share, reductions by threads."""

import numpy as np
import pytest

from tests.te.schedule.programs import check, rng, rows
from tilesmith import build, lower, te, tir
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.interpreter import Options, run

RACES = Options(check_races=True)


def transposed(scope, binds_copy=True):
    """A transposition in tiles, by way of memory of the block."""
    A = te.placeholder((12, 8), name="A")
    D = te.compute((12, 8), lambda i, j: A[i, j] + 1.0, name="D")
    C = te.compute((8, 12), lambda i, j: D[j, i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    bx, tx, ty = [te.thread_axis(tag) for tag in ("blockIdx.x", "threadIdx.x", "threadIdx.y")]
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 4)
    block = s[C].fuse(io, jo)
    s[C].bind(block, bx)
    s[C].bind(ii, ty)
    s[C].bind(ji, tx)
    s[D].set_scope(scope)
    s[D].compute_at(s[C], block)
    if binds_copy:
        s[D].bind(D.op.axis[0], ty)
        s[D].bind(D.op.axis[1], tx)
    a = rng.random((12, 8), dtype="float32")
    return A, D, C, s, a, (a.T + 1) * 2


def test_threads_of_a_block_fill_shared_memory_together():
    A, D, C, s, a, wanted = transposed("shared")
    bounds = te.schedule.InferBound(s.normalize())
    assert [bounds[axis].extent.value for axis in D.op.axis] == [4, 4]
    check(s, [A, C], wanted, a)
    kernels = build(s, [A, C], target="nvptx").imported_modules[0].get_source()
    assert kernels.count("bar.sync") == 1


@pytest.mark.parametrize("scope, extents", [("shared", [4, 4]), ("local", [1, 1]), ("", [1, 1])])
def test_memory_decides_how_much_of_a_stage_is_computed(scope, extents):
    A = te.placeholder((12, 8), name="A")
    D = te.compute((12, 8), lambda i, j: A[i, j] + 1.0, name="D")
    C = te.compute((12, 8), lambda i, j: D[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    _, _, ii, ji = s[C].tile(*C.op.axis, 4, 4)
    s[C].bind(ii, te.thread_axis("threadIdx.y"))
    s[C].bind(ji, te.thread_axis("threadIdx.x"))
    s[D].set_scope(scope)
    s[D].compute_at(s[C], ji)
    bounds = te.schedule.InferBound(s.normalize())
    assert [bounds[axis].extent.value for axis in D.op.axis] == extents
    assert f'scope="{scope or "local"}"' in str(lower(s, [A, C], simple_mode=True))


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("binds_rows", [False, True])
def test_threads_reduce_together(factor, binds_rows):
    A, D, C, a, wanted = rows()
    s = te.create_schedule(C.op)
    s[D].compute_inline()
    _, inner = s[C].split(C.op.reduce_axis[0], factor=factor)
    tx = te.thread_axis("threadIdx.x")
    s[C].bind(inner, tx)
    s[C].set_store_predicate(tx.var.equal(0))
    if binds_rows:
        outer, _ = s[C].split(C.op.axis[0], factor=4)
        s[C].bind(outer, te.thread_axis("blockIdx.x"))
    check(s, [A, C], wanted, a, options=RACES)


def test_a_first_value_joins_what_threads_reduce():
    A = te.placeholder((4, 6), name="A")
    F = te.placeholder((4,), name="F")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=[F[i]]), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(k, te.thread_axis("threadIdx.x"))
    a, f = rng.random((4, 6), dtype="float32"), rng.random(4, dtype="float32")
    check(s, [A, F, C], a.sum(1) + f, a, f)


def test_partial_results_of_threads_are_kept_in_registers():
    A, D, C, a, wanted = rows(8, 8)
    s = te.create_schedule(C.op)
    s[D].compute_inline()
    _, inner = s[C].split(C.op.reduce_axis[0], factor=4)
    partial = s.rfactor(C, inner)
    tx = te.thread_axis("threadIdx.x")
    s[C].bind(s[C].op.reduce_axis[0], tx)
    s[partial].compute_at(s[C], s[C].op.reduce_axis[0])
    s[C].set_store_predicate(tx.var.equal(0))
    check(s, [A, C], wanted, a)
    assert 'scope="local"' in str(lower(s, [A, C], simple_mode=True))


def test_virtual_threads_become_copies():
    A = te.placeholder((24,), name="A")
    D = te.compute((24,), lambda i: A[i] + 1.0, name="D")
    C = te.compute((24,), lambda i: D[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    virtual, inner = s[C].split(C.op.axis[0], nparts=3)
    s[C].bind(virtual, te.thread_axis("vthread"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    s[D].compute_at(s[C], inner)
    a = rng.random(24, dtype="float32")
    check(s, [A, C], (a + 1) * 2, a)
    assert "D = T.decl_buffer((3,)" in str(lower(s, [A, C], simple_mode=True))


def test_one_thread_axis_runs_loops_of_several_stages():
    """A thread that runs already is not launched again, also by another axis of its name."""
    A, D, C, s, a, wanted = transposed("shared", binds_copy=False)
    s[D].bind(D.op.axis[0], te.thread_axis("threadIdx.y"))
    s[D].bind(D.op.axis[1], te.thread_axis("threadIdx.x"))
    check(s, [A, C], wanted, a)


def product(n, uses_double_buffers):
    """A product of matrices in blocks: virtual threads, shared memory, registers."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[k, i] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    shared = [s.cache_read(one, "shared", [C]) for one in (A, B)]
    local = [s.cache_read(one, "local", [C]) for one in shared]
    results = s.cache_write(C, "local")
    threads = {
        "y": [("blockIdx.y", None), ("vthread", 2), ("threadIdx.y", 2)],
        "x": [("blockIdx.x", None), ("vthread", 2), ("threadIdx.x", 2)],
    }
    loops, bound = {}, {}
    for axis, direction in zip(C.op.axis, threads):
        outer, inner = s[C].split(axis, factor=8)
        virtual, inner = s[C].split(inner, nparts=2)
        thread, inner = s[C].split(inner, nparts=2)
        loops[direction] = [outer, virtual, thread, inner]
        bound[direction] = [te.thread_axis(tag) for tag, _ in threads[direction]]
    s[C].reorder(*[loop for pair in zip(loops["y"], loops["x"]) for loop in pair])
    for direction, axes in bound.items():
        for loop, thread in zip(loops[direction], axes):
            s[C].bind(loop, thread)
    s[results].compute_at(s[C], loops["x"][2])
    ko, ki = s[results].split(s[results].op.reduce_axis[0], factor=4)
    s[results].reorder(ko, ki, *s[results].op.axis)
    s[results].unroll(ki)
    for one in shared:
        s[one].compute_at(s[results], ko)
        for axis, direction in zip(s[one].op.axis, ("y", "x")):
            outer, _ = s[one].split(axis, nparts=2)
            s[one].bind(outer, bound[direction][2])
        if uses_double_buffers:
            s[one].double_buffer()
    for one in local:
        s[one].compute_at(s[results], ki)
    return A, B, C, s


@pytest.mark.parametrize("uses_double_buffers", [False, True])
@pytest.mark.parametrize("n", [8, 12])
def test_a_product_in_blocks_with_shared_memory_and_registers(n, uses_double_buffers):
    A, B, C, s = product(n, uses_double_buffers)
    a, b = rng.random((n, n), dtype="float32"), rng.random((n, n), dtype="float32")
    check(s, [A, B, C], a.T @ b, a, b)
    kernels = build(s, [A, B, C], target="nvptx").imported_modules[0].get_source()
    assert "bar.sync" in kernels and ".shared" in kernels


def test_stages_of_their_own_become_kernels_of_their_own():
    A, D, C, a, wanted = rows()
    s = te.create_schedule(C.op)
    for stage in (D, C):
        s[stage].bind(stage.op.axis[0], te.thread_axis("blockIdx.x"))
    check(s, [A, C], wanted, a)
    module = build(s, [A, C], target="nvptx")
    assert module.imported_modules[0].get_source().count(".entry") == 2


def test_a_block_axis_can_reduce_only_as_text():
    """Blocks do not exchange values: it can be shown, and is refused when it is built."""
    A, D, C, a, wanted = rows()
    s = te.create_schedule(C.op)
    s[D].compute_inline()
    s[C].bind(C.op.reduce_axis[0], te.thread_axis("blockIdx.x"))
    assert "blockIdx.x" in str(lower(s, [A, C], simple_mode=True))
    with pytest.raises(Exception, match="which is not an axis of threads"):
        build(s, [A, C], target="nvptx")


def test_scalars_of_blocks_and_guards_of_threads():
    A, D, C, a, wanted = rows(10, 5)
    s = te.create_schedule(C.op)
    s[D].compute_inline()
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].bind(outer, te.thread_axis("blockIdx.x"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    check(s, [A, C], wanted, a, options=RACES)
    assert np.isfinite(wanted).all()


def sums_in_shared_memory(kind):
    """Rows are summed into memory of the block by a stage that is bound to no thread, or not to
    all of them; the threads of the block use the sums.
    """
    A = te.placeholder((6, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")

    def summed(inputs, outputs):
        ib = tir.ir_builder.create()
        source, result = ib.buffer_ptr(inputs[0]), ib.buffer_ptr(outputs[0])
        with ib.for_range(0, 6) as i:
            result[i] = 0.0
            with ib.for_range(0, 5) as j:
                result[i] = result[i] + source[i, j]
        return ib.get()

    if kind == "extern":
        D = te.extern((6,), [A], summed, dtype="float32", name="D")
    else:
        D = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="D")
    C = te.compute((6, 4), lambda i, j: D[i] * (j + 1), name="C")
    s = te.create_schedule(C.op)
    tx, ty = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
    block, row = s[C].split(C.op.axis[0], factor=3)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(row, ty)
    s[C].bind(C.op.axis[1], tx)
    s[D].set_scope("shared")
    s[D].compute_at(s[C], C.op.axis[1] if kind == "inside" else block)
    if kind == "rows bound":
        s[D].bind(D.op.axis[0], ty)
    if kind == "chosen":
        s[D].set_store_predicate(te.all(tx.var.equal(2), ty.var.equal(1)))
        s[D].compute_at(s[C], C.op.axis[1])
    if kind == "copied":
        copy = s.cache_read(A, "shared", [D])
        s[copy].compute_at(s[D], D.op.axis[0])
        outer, _ = s[copy].split(s[copy].op.axis[1], nparts=3)
        s[copy].bind(outer, ty)
    a = rng.random((6, 5), dtype="float32")
    return s, [A, C], a, np.outer(a.sum(1), np.arange(1, 5))


@pytest.mark.parametrize("kind, condition", [
    ("block", "threadIdx_y == 0 and threadIdx_x == 0"),
    ("inside", "threadIdx_y == 0 and threadIdx_x == 0"),
    ("rows bound", "threadIdx_x == 0"),
    ("copied", "threadIdx_y == 0 and threadIdx_x == 0"),
    ("chosen", "threadIdx_x == 2 and threadIdx_y == 1"),
    ("extern", "threadIdx_y == 0 and threadIdx_x == 0"),
])  # fmt: skip
def test_one_thread_updates_memory_of_the_block(kind, condition):
    s, args, a, wanted = sums_in_shared_memory(kind)
    lowered = tir.transform.ThreadSync("shared")(lower(s, args, simple_mode=True))
    assert f"if {condition}:" in str(lowered)
    found = np.full((6, 4), 77, "float32")
    run(lowered["main"], a, found, options=RACES)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    kernels = build(s, args, target="nvptx").imported_modules[0].get_source()
    assert "bar.sync" in kernels


def test_one_thread_updates_an_output_where_others_help_with_its_inputs():
    A, D, C, a, wanted = rows(4, 6)
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[D].set_scope("shared")
    s[D].compute_at(s[C], C.op.axis[0])
    s[D].bind(D.op.axis[1], te.thread_axis("threadIdx.x"))
    lowered = tir.transform.ThreadSync("shared")(lower(s, [A, C], simple_mode=True))
    found = np.full(4, 77, "float32")
    run(lowered["main"], a, found, options=RACES)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def on_threads(change):
    """Two stages over 4 by 6 elements; ``change(s, A, D, C, tx)`` schedules them."""
    A = te.placeholder((4, 6), name="A")
    D = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="D")
    C = te.compute((4, 6), lambda i, j: D[i, 5 - j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    change(s, D, C, lambda: te.thread_axis("threadIdx.x"))
    return lower(s, [A, C])


def fill_by_ended_threads(s, D, C, thread):
    s[D].set_scope("shared")
    s[D].bind(D.op.axis[0], thread())


def bind_twice(s, D, C, thread):
    s[C].bind(C.op.axis[0], thread())
    s[C].bind(C.op.axis[1], thread())


def bind_other_extents(s, D, C, thread):
    s[C].bind(C.op.axis[0], thread())
    s[D].compute_at(s[C], C.op.axis[0])
    s[D].set_scope("shared")
    s[D].bind(D.op.axis[1], thread())


def fill_in_parts(s, D, C, thread):
    s[C].bind(C.op.axis[0], thread())
    s[D].compute_at(s[C], C.op.axis[0])
    s[D].bind(D.op.axis[1], te.thread_axis("threadIdx.y"))


MEANINGLESS = {
    "the threads 'threadIdx.y' of 'j' fill \"local\" memory": fill_in_parts,
    "'D'.*\"shared\" memory ends with the threads 'threadIdx.x'": fill_by_ended_threads,
    "'i' and 'j' both run on the threads 'threadIdx.x'": bind_twice,
    "'j' runs over 6 values, and inside of 'i' of stage 'C', which runs over 4": bind_other_extents,
}


@pytest.mark.parametrize("message", MEANINGLESS)
def test_threads_and_memory_that_do_not_fit_are_refused(message):
    with pytest.raises(ScheduleError, match=message):
        on_threads(MEANINGLESS[message])
