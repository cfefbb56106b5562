"""Programs of unusual shapes under classic schedules: no dimensions, no elements, several results,
reads by data, wide indices, axes that begin elsewhere; and ways to build them.
"""

import numpy as np
import pytest

from tests.te.schedule.programs import check, rng
from tilesmith import build, lower, nd, te, tir
from tilesmith.target import Target


def elementwise(n=9):
    A = te.placeholder((n,), name="A")
    D = te.compute((n,), lambda i: A[i] + 1.0, name="D")
    C = te.compute((n,), lambda i: D[i] * 2.0, name="C")
    return A, D, C, te.create_schedule(C.op)


def test_a_stage_without_dimensions_gets_a_loop():
    A = te.placeholder((), name="A")
    D = te.compute((), lambda: A[()] + 1.0, name="D")
    C = te.compute((), lambda: D[()] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[D].compute_at(s[C], s[C].fuse())
    check(s, [A, C], np.float32(8.0), np.array(3.0, "float32"))


def test_a_reduction_to_one_value():
    A = te.placeholder((9,), name="A")
    k = te.reduce_axis((0, 9), "k")
    C = te.compute((), lambda: te.sum(A[k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(k, 4)
    a = rng.random(9, dtype="float32")
    check(s, [A, C], a.sum(), a)


def test_several_results_of_one_stage():
    A = te.placeholder((9,), name="A")
    D, E = te.compute((9,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="D")
    C = te.compute((9,), lambda i: D[i] + E[i], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[D].compute_at(s[C], outer)
    a = rng.random(9, dtype="float32")
    check(s, [A, C], a * 3 + 1, a)


def test_no_elements():
    A = te.placeholder((0, 4), name="A")
    C = te.compute((0, 4), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[C].parallel(outer)
    a = np.zeros((0, 4), "float32")
    check(s, [A, C], a, a)


def test_reads_by_data_need_the_whole_stage():
    A = te.placeholder((9, 4), name="A")
    P = te.placeholder((5,), "int32", name="P")
    D = te.compute((9, 4), lambda i, j: A[i, j] + 1.0, name="D")
    C = te.compute((5, 4), lambda i, j: D[P[i], j], name="C")
    s = te.create_schedule(C.op)
    s[D].compute_at(s[C], C.op.axis[0])
    bounds = te.schedule.InferBound(s)
    assert [bounds[axis].extent.value for axis in D.op.axis] == [9, 4]
    a, p = rng.random((9, 4), dtype="float32"), np.array([3, 8, 0, 1, 1], "int32")
    check(s, [A, P, C], (a + 1)[p], a, p)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_symbolic_sizes_of_each_width(dtype):
    n, m = te.var("n", dtype), te.var("m", dtype)
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    D = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="D")
    C = te.compute((n,), lambda i: te.sum(D[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(k, 4)
    io, ii = s[C].split(C.op.axis[0], 4)
    s[C].reorder(io, ko, ii, ki)
    s[D].compute_at(s[C], ko)
    s[D].fuse(*D.op.axis)
    sizes = "16" if dtype == "int32" else "T.int64(16)"
    assert f"D = T.decl_buffer(({sizes},))" in str(lower(s, [A, C], simple_mode=True))
    built = build(s, [A, C], target="llvm")
    for shape in ((1, 1), (4, 8), (7, 9)):
        a, out = rng.random(shape, dtype="float32"), nd.array(np.zeros(shape[0], "float32"))
        built(nd.array(a), out)
        np.testing.assert_allclose(out.numpy(), (a + 1).sum(1), rtol=1e-5)


def test_an_axis_that_begins_elsewhere():
    A = te.placeholder((20,), name="A")
    k = te.reduce_axis((3, 17), "k")
    C = te.compute((4,), lambda i: te.sum(A[k], axis=k), name="C")
    a = rng.random(20, dtype="float32")
    wanted = np.repeat(a[3:17].sum(), 4)
    check(te.create_schedule(C.op), [A, C], wanted, a)
    s = te.create_schedule(C.op)
    copied = s.cache_read(A, "local", [C])
    s[copied].compute_at(s[C], k)
    check(s, [A, C], wanted, a)
    s = te.create_schedule(C.op)
    s[C].split(k, 4)
    check(s, [A, C], wanted, a)


def test_a_chain_of_a_thousand_stages():
    A = te.placeholder((2,), name="A")
    tensor = A
    for number in range(1000):
        tensor = te.compute((2,), lambda i, T=tensor: T[i] + 1.0, name=f"stage{number}")
    s = te.create_schedule(tensor.op)
    bounds = te.schedule.InferBound(s)
    assert len(bounds) == 1000
    text = str(te.schedule.ScheduleOps(s, bounds))
    assert text.count("for i in range(2)") == 1000


# Ways to build


def ran(function, a):
    out = nd.array(np.zeros_like(a))
    function(nd.array(a), out)
    np.testing.assert_allclose(out.numpy(), (a + 1) * 2)


def test_lowered_schedules_are_built_alone_together_and_for_several_targets():
    A, D, C, s = elementwise()
    outer, inner = s[C].split(C.op.axis[0], 4)
    s[C].vectorize(inner)
    s[D].compute_at(s[C], outer)
    first, second = lower(s, [A, C], name="first"), lower(s, [A, C], name="second")
    a = rng.random(9, dtype="float32")
    ran(build(first, target="llvm")["first"], a)
    together = build([first, second], target="llvm")
    ran(together["second"], a)
    other = Target("llvm -mcpu=core-avx2")
    apart = build({"llvm": first, other: second})
    ran(apart["first"], a)
    assert apart.imported_modules[0].function_names == ["second"]


def test_steps_from_schedule_to_function():
    A, D, C, s = elementwise()
    normal = s.normalize()
    stmt = te.schedule.ScheduleOps(normal, te.schedule.InferBound(normal))
    assert not te.schedule.VerifyCompactBuffer(stmt)
    func = te.schedule.SchedulePostProcToPrimFunc([A, C], stmt, None)
    assert isinstance(func, tir.PrimFunc) and func.attrs["from_legacy_te_schedule"]
    assert "T.realize(D[0:9]" in func.script()
    paths = te.schedule.CreateAttachPath(s)
    assert paths[D.op] == [] and paths[C.op] == []
    s[D].compute_at(s[C], C.op.axis[0])
    assert te.schedule.CreateAttachPath(s)[D.op] == [C.op.axis[0]]


def test_names_of_the_way_to_a_module():
    from tilesmith.lowering import form_irmodule, get_binds, schedule_to_module

    A, D, C, s = elementwise()
    module = schedule_to_module(s, [A, C], "scaled")
    assert [variable.name_hint for variable in module.functions] == ["scaled"]
    assert form_irmodule(s, [A, C], "scaled", None)["scaled"].attrs["global_symbol"] == "scaled"
    n = te.var("n")
    binds, arguments = get_binds([A, n])
    assert arguments[0] is binds[A] and arguments[1] is n
    assert arguments[0].name == "A" and list(arguments[0].shape) == list(A.shape)


SOURCES = {
    "import_c": "float thrice(float x) { return x * 3.0f; }",
    "import_llvm": "define float @thrice(float %x) {\n %y = fmul float %x, 3.0\n ret float %y\n}",
}


@pytest.mark.parametrize("target, pragma", [("llvm", "import_c"), ("c", "import_c"),
                                            ("llvm", "import_llvm")])  # fmt: skip
def test_imported_code_is_linked(target, pragma):
    A = te.placeholder((9,), name="A")
    C = te.compute((9,), lambda i: tir.call_pure_extern("float32", "thrice", A[i]), name="C")
    s = te.create_schedule(C.op)
    s[C].pragma(C.op.axis[0], pragma, SOURCES[pragma])
    a, out = rng.random(9, dtype="float32"), nd.array(np.zeros(9, "float32"))
    build(s, [A, C], target=target)(nd.array(a), out)
    np.testing.assert_allclose(out.numpy(), a * 3, rtol=1e-6)
