"""Schedules that cannot be lowered are refused at the user's line, with stage, loop and cure."""

import inspect
import linecache

import pytest

from tests.te.schedule.programs import rows
from tilesmith import build, lower, te, tir
from tilesmith.support.errors import ScheduleError, TypeMismatchError
from tilesmith.support.fallbacks import collect_fallbacks

A = te.placeholder((8, 6), name="A")
D = te.compute((8, 6), lambda i, j: A[i, j] * 2.0, name="D")
E = te.compute((8, 6), lambda i, j: D[i, j] + 1.0, name="E")
C = te.compute((8, 6), lambda i, j: D[i, j] + E[i, j], name="C")


def made():
    return te.create_schedule(C.op)


def lowered(s, args=(A, C)):
    lower(s, list(args), simple_mode=True)  # all others


def inlined_then_split():
    s = made()
    s[D].compute_inline()
    s[D].split(D.op.axis[0], factor=2)  # here


def not_on_the_way():
    s = made()
    s[D].compute_at(s[C], C.op.axis[0])  # here: E uses D too, and is computed before
    lowered(s)


def circular():
    s = made()
    s[D].compute_at(s[E], E.op.axis[0])
    s[E].compute_at(s[D], D.op.axis[0])  # here


def output_inside():
    s = te.create_schedule([E.op, C.op])
    s[E].compute_at(s[C], C.op.axis[0])  # here
    lowered(s, (A, E, C))


def missing_input():
    lowered(made(), [C])


def missing_output():
    lowered(made(), [A])


def no_arguments():
    lower(made())  # here


def wrong_argument():
    lowered(made(), [A, C, 3])


def unknown_axis():
    s = made()
    s[C].split(D.op.axis[0], factor=2)  # here


def split_loop_again():
    s = made()
    s[C].split(C.op.axis[0], factor=2)
    s[C].split(C.op.axis[0], factor=2)  # here


def broken_promise():
    s = made()
    s[C].split(C.op.axis[0], factor=3, disable_predication=True)  # here
    lowered(s)


def unknown_pragma():
    s = made()
    s[C].pragma(C.op.axis[0], "auto_unrol_max_step", 4)  # here
    lowered(s)


def unknown_pragma_built():
    s = made()
    s[C].pragma(C.op.axis[0], "import_d", "int x;")  # here
    build(s, [A, C], target="c")


def different_extents_on_one_thread():
    s = made()
    tx = te.thread_axis("threadIdx.x")
    s[C].bind(C.op.axis[1], tx)
    s[D].bind(D.op.axis[0], tx)  # here
    lowered(s)


def two_loops_on_one_thread():
    s = made()
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[C].bind(C.op.axis[1], te.thread_axis("threadIdx.x"))  # here
    lowered(s)


def an_argument_twice():
    lowered(made(), [A, A, C])


def another_extent_than_the_thread_has():
    s = made()
    s[C].bind(C.op.axis[1], te.thread_axis((0, 8), "threadIdx.x"))  # here
    lowered(s)


def thread_of_a_predicate():
    s = made()
    s[C].set_store_predicate(te.thread_axis("threadIdx.x").var.equal(0))
    build(s, [A, C])  # here


def unknown_variable():
    n = te.var("n")
    F = te.compute((8,), lambda i: A[i, 0] + n.astype("float32"), name="F")
    build(te.create_schedule(F.op), [A, F])  # here


def prefetch_of_what_is_not_read():
    s = made()
    s[C].prefetch(A, C.op.axis[0], 1)
    lowered(s)


def virtual_threads_of_a_reduction():
    A, _, R, _, _ = rows()
    s = te.create_schedule(R.op)
    s[R].bind(R.op.reduce_axis[0], te.thread_axis("vthread"))  # here
    lowered(s, [A, R])


def results_and_values_on_threads():
    A, _, R, _, _ = rows()
    s = te.create_schedule(R.op)
    s[R].bind(s[R].fuse(*R.op.axis, *R.op.reduce_axis), te.thread_axis("threadIdx.x"))  # here
    lowered(s, [A, R])


REFUSED = {
    inlined_then_split: ("'D'", "is inlined"),
    not_on_the_way: ("'D'", "'E' uses it too", "'i' of stage 'C'"),
    circular: ("'E'", "itself computed inside"),
    output_inside: ("'E'", "is an output"),
    missing_input: ("'D' uses tensor 'A'", "not among the arguments"),
    missing_output: ("'C' is an output", "not among the arguments"),
    no_arguments: ("arguments of a schedule are needed",),
    wrong_argument: ("a tensor, a buffer or a variable, got 3",),
    unknown_axis: ("'C'", "'i' is not a loop of the stage"),
    split_loop_again: ("'C'", "'i' is not a loop of the stage", "i.outer, i.inner"),
    broken_promise: ("'C'", "9 iterations of 'i' without a guard"),
    unknown_pragma: ("'C'", "'i' is unknown", "auto_unroll_max_step"),
    unknown_pragma_built: ("'C'", "'import_d'", "import_c"),
    different_extents_on_one_thread: ("'D'", "'i' runs over 8 values", "'j' of stage 'C' over 6"),
    two_loops_on_one_thread: ("'C'", "'i' and 'j' both run on the threads 'threadIdx.x'", "fuse"),
    an_argument_twice: ("'A' is twice among the arguments",),
    another_extent_than_the_thread_has: ("'C'", "'j' runs over 6 values", "thread axis over 8"),
    thread_of_a_predicate: ("'C'", "'threadIdx.x'", "bind a loop"),
    unknown_variable: ("'F' uses 'n'", "neither an argument nor a size"),
    prefetch_of_what_is_not_read: ("'A' is not read in the loop",),
    virtual_threads_of_a_reduction: ("'C'", "'k' cannot run on virtual threads"),
    results_and_values_on_threads: ("'C'", "fuse axes of one kind only"),
}


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_refusals_name_stage_loop_and_cure(program):
    with pytest.raises((ScheduleError, TypeMismatchError)) as caught:
        program()
    text = str(caught.value)
    assert all(part in text for part in REFUSED[program]), text
    place = caught.value.place
    assert place.file == __file__
    # the primitive that is at fault, where one is known; else the call that lowers
    marked = "# here" in inspect.getsource(program)
    assert ("# here" if marked else "# all others") in linecache.getline(__file__, place.line)


def test_inferred_bounds_need_a_schedule_without_inlined_stages():
    s = made()
    s[D].compute_inline()
    with pytest.raises(ScheduleError, match=r"'D' is inlined.*\n?[^$]*normalize"):
        te.schedule.InferBound(s)
    with pytest.raises(ScheduleError, match="'D' is inlined"):
        te.schedule.ScheduleOps(s, {})
    te.schedule.InferBound(s.normalize())


def test_an_environment_thread_needs_an_extent():
    state = te.placeholder((4, 3), name="state")
    init = te.compute((1, 3), lambda _, i: te.const(0.0, "float32"), name="init")
    update = te.compute((4, 3), lambda t, i: state[t - 1, i] + 1.0, name="update")
    scan = te.scan(init, update, state)
    s = te.create_schedule(scan.op)
    s[scan].env_threads([te.thread_axis("blockIdx.x")])
    with pytest.raises(ScheduleError, match="has no extent"):
        lower(s, [scan])


def test_a_buffer_that_is_bound_is_an_argument_too():
    s = made()
    given = tir.decl_buffer((8, 6), "float32", name="given")
    func = lower(s, [given, C], binds={A: given}, simple_mode=True)["main"]
    assert [buffer.name for buffer in func.buffer_map.values()] == ["given", "C"]


@pytest.mark.parametrize("mark", ["unroll", "vectorize", "parallel", "pragma"])
@pytest.mark.parametrize("change", ["split", "fuse"])
def test_marks_of_loops_that_are_no_more_are_recorded(mark, change):
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    if mark == "pragma":
        s[B].pragma(j, "auto_unroll_max_step", 4)
    else:
        getattr(s[B], mark)(j)
    with collect_fallbacks() as report:
        s[B].split(j, 4) if change == "split" else s[B].fuse(i, j)
    ((fallback, count),) = report.rows()
    assert (fallback.kind, count) == ("schedule", 1)
    assert "of loop 'j' is lost" in fallback.reason
