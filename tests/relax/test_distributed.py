"""Tensors that are spread over workers: structures, scripts, operators, passes."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.ir import Range
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.relax import analysis, interpreter, op
from tilesmith.relax.distributed import (
    DeviceMesh,
    DTensorStructInfo,
    Placement,
    PlacementSpec,
    device_mesh,
    transform,
)
from tilesmith.relax.distributed.struct_info import PlacementSpecKind
from tilesmith.script import from_source
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import (
    ScriptError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)

MESH = device_mesh((2,), Range(0, 2))


# Structures


def test_meshes_and_placements():
    assert device_mesh((2, 2), [0, 1, 2, 3]) == DeviceMesh((2, 2), Range(0, 4))
    assert MESH != device_mesh((2,), [1, 0]) and hash(MESH) == hash(device_mesh((2,), [0, 1]))
    placement = Placement.from_text("S[1], R")
    assert placement == Placement([PlacementSpec.sharding(1), PlacementSpec.replica()])
    assert placement.text == "S[1], R" and placement.axes == (1, None)
    assert PlacementSpec.replica().kind is PlacementSpecKind.REPLICA
    for wrong in ("S", "S[a]", "R, X", "S[-1]"):
        with pytest.raises(ScriptError, match="not a placement"):
            Placement.from_text(wrong)
    with pytest.raises(ShapeError, match="4 workers, got 3"):
        device_mesh((2, 2), [0, 1, 2])
    with pytest.raises(ShapeError, match="counted from 0"):
        PlacementSpec.sharding(-1)


def test_struct_info():
    whole = R.Tensor((4, 6), "float32")
    info = DTensorStructInfo(whole, MESH, "S[1]")
    assert info.local().concrete_shape == (4, 3) and info.ndim == 2 and info.dtype == "float32"
    assert info == DTensorStructInfo(whole, MESH, "S[1]") != DTensorStructInfo(whole, MESH, "R")
    n = ts.tir.Var("n", "int64")
    wider = DTensorStructInfo(R.Tensor((n, 6), "float32"), MESH, "S[1]")
    assert analysis.struct_info_base_check(wider, info) == analysis.BaseCheckResult.FAIL_L2
    other = DTensorStructInfo(whole, MESH, "R")
    assert analysis.struct_info_base_check(other, info) == analysis.BaseCheckResult.FAIL_L0
    assert analysis.struct_info_lca(other, info) == relax.ObjectStructInfo()
    assert analysis.definable_tir_vars_in_struct_info(wider) == [n]
    with pytest.raises(ShapeError, match="2 entries; the mesh has 1 axes"):
        DTensorStructInfo(whole, MESH, "S[0], R")
    with pytest.raises(ShapeError, match="no axis 2"):
        DTensorStructInfo(whole, MESH, "S[2]")
    with pytest.raises(ShapeError, match="cannot divide axis 0 of size 3"):
        DTensorStructInfo(R.Tensor((3, 6), "float32"), MESH, "S[0]").local()
    with pytest.raises(ShapeError, match="not known"):
        DTensorStructInfo(R.Tensor((n, 6), "float32"), MESH, "S[0]").local()


def test_scripts():
    @I.ir_module
    class Module:
        I.module_global_infos({"mesh": [R.device_mesh((2, 2), I.Range(0, 4))]})

        @R.function
        def main(
            x: R.DTensor(("n", 8), "float32", "mesh[0]", "R, S[1]"),
            y: R.DTensor((8,), "float32", R.device_mesh((2, 2), [3, 2, 1, 0]), "R, R"),
        ) -> R.DTensor(("n", 8), "float32", "mesh[0]", "S[0], R"):
            z: R.DTensor(("n", 8), "float32", "mesh[0]", "S[0], R") = R.dist.redistribute(
                x, "mesh[0]", "S[0], R"
            )
            c = R.dist.const(  # noqa: F841
                np.ones(4, "float32"), R.DTensor((4,), "float32", "mesh[0]", "S[0], R")
            )
            return z

    x = Module["main"].params[0].struct_info
    assert x.device_mesh.shape == (2, 2) and x.placement.text == "R, S[1]"
    assert Module["main"].params[1].struct_info.device_mesh.device_ids == (3, 2, 1, 0)
    again = from_source(Module.script(show_meta=True))
    assert_structural_equal(again, Module)
    with pytest.raises(ScriptError, match=r"no global info 'mesh\[1\]'"):

        @I.ir_module
        class Wrong:
            I.module_global_infos({"mesh": [R.device_mesh((2,), I.Range(0, 2))]})

            @R.function
            def main(x: R.DTensor((8,), "float32", "mesh[1]", "R")):
                return x

    with pytest.raises(TypeMismatchError, match="a mesh is needed"):
        R.DTensor((4,), "float32", None, "R")


# Operators


def spread(placement, *shape, mesh=MESH):
    return relax.Var("x", DTensorStructInfo(R.Tensor(shape, "float32"), mesh, placement))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: op.exp(spread("S[1]", 4, 6)), "S[1]"),
        (lambda: op.add(spread("S[1]", 4, 6), spread("S[0]", 6)), "S[1]"),
        (lambda: op.add(spread("S[0]", 4, 6), spread("R", 1, 6)), "S[0]"),
        (lambda: op.matmul(spread("S[0]", 4, 6), spread("R", 6, 8)), "S[0]"),
        (lambda: op.matmul(spread("R", 4, 6), spread("S[1]", 6, 8)), "S[1]"),
        (lambda: op.matmul(spread("S[1]", 4, 6), spread("S[0]", 6, 8)), "R"),
        (lambda: op.matmul(spread("S[0]", 2, 4, 6), spread("S[0]", 2, 6, 8)), "S[0]"),
        (lambda: op.permute_dims(spread("S[0]", 4, 6, 8), [1, 2, 0]), "S[2]"),
        (lambda: op.sum(spread("S[1]", 4, 6), axis=1), "R"),
        (lambda: op.max(spread("S[1]", 4, 6), axis=0), "S[0]"),
        (lambda: op.nn.softmax(spread("S[0]", 4, 6), axis=1), "S[0]"),
        (lambda: op.reshape(spread("R", 4, 6), (24,)), "R"),
        (lambda: op.concat([spread("R", 4, 6), spread("R", 4, 6)]), "R"),
        (lambda: op.dist.redistribute(spread("R", 4, 6), MESH, "S[0]"), "S[0]"),
        (lambda: op.dist.redistribute_replica_to_shard(spread("R", 4, 6), 2, 1), "S[1]"),
        (lambda: op.ccl.allgather(spread("S[0]", 4, 6), 2), "R"),
        (lambda: op.ccl.allreduce(spread("R", 4, 6)), "R"),
    ],
)
def test_placements_of_results(make, expected):
    assert make().struct_info.placement.text == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: op.add(spread("S[0]", 4, 6), spread("S[1]", 4, 6)),
        lambda: op.matmul(spread("S[1]", 4, 6), spread("R", 6, 8)),
        lambda: op.nn.softmax(spread("S[1]", 4, 6), axis=1),
        lambda: op.reshape(spread("S[0]", 4, 6), (24,)),
        lambda: op.concat([spread("S[0]", 4, 6), spread("S[0]", 4, 6)]),
        lambda: op.add(spread("R", 4), spread("R", 4, mesh=device_mesh((2,), [5, 6]))),
    ],
)
def test_what_no_worker_can_compute(make):
    with pytest.raises(TypeMismatchError):
        print(make().struct_info)


def test_collectives():
    x = relax.Var("x", R.Tensor((4, 6), "float32"))
    assert op.ccl.allgather(x, 3).struct_info.concrete_shape == (12, 6)
    assert op.ccl.scatter_from_worker0(x, 3, axis=1).struct_info.concrete_shape == (4, 2)
    assert op.ccl.broadcast_from_worker0(x).struct_info == x.struct_info
    with pytest.raises(ShapeError, match="3 workers cannot divide axis 0"):
        print(op.ccl.scatter_from_worker0(x, 3).struct_info)
    local = DTensorStructInfo(R.Tensor((4, 6), "float32"), MESH, "S[1]")
    kernel = relax.op.dist.call_tir_local_view(ts.ir.GlobalVar("f"), [x], local)
    assert kernel.struct_info == local and kernel.op.name == "relax.dist.call_tir_local_view"


# Passes

PASSES = [
    transform.PropagateSharding,
    transform.LowerGlobalViewToLocalView,
    transform.LegalizeRedistribute,
    transform.LowerDistIR,
]


def lowered(module):
    for one in PASSES:
        module = one()(module)
        analysis.assert_well_formed(module)
        assert_structural_equal(from_source(module.script(show_meta=True)), module)
    return module


def run_workers(module, count, *arrays):
    """Run a lowered program on several workers, binding for binding."""
    function = module["main"]
    values = [dict(zip(function.params, arrays)) for _ in range(count)]

    def operand(known, value):
        if isinstance(value, relax.Constant):
            return value.data.numpy()
        if isinstance(value, relax.Tuple):
            return tuple([operand(known, one) for one in value.fields])
        if isinstance(value, relax.TupleGetItem):
            return operand(known, value.tuple_value)[value.index]
        return (
            tuple([int(s) for s in value]) if isinstance(value, relax.ShapeExpr) else known[value]
        )

    def collective(name, attrs, given, worker):
        if name == "relax.ccl.allreduce":
            return sum(given)
        if name == "relax.ccl.allgather":
            return np.concatenate(given, 0)
        if name == "relax.ccl.broadcast_from_worker0":
            return given[0]
        source = given[0] if name == "relax.ccl.scatter_from_worker0" else given[worker]
        return np.split(source, count, attrs.axis)[worker]

    for block in function.body.blocks:
        for binding in block.bindings:
            call = binding.value
            if not isinstance(call, relax.Call):
                for known in values:
                    known[binding.var] = operand(known, call)
                continue
            given = [[operand(known, arg) for arg in call.args] for known in values]
            is_collective = call.op.name.startswith(("relax.ccl.", "relax.dist."))
            for worker, known in enumerate(values):
                if is_collective:
                    firsts = [one[0] for one in given]
                    found = collective(call.op.name, call.attrs, firsts, worker)
                else:
                    found = call.op.spec.evaluate(call.attrs, *given[worker])
                if isinstance(binding.var.struct_info, relax.TensorStructInfo):
                    assert found.shape == binding.var.struct_info.concrete_shape
                known[binding.var] = found
    return [operand(known, function.body.body) for known in values]


@I.ir_module
class Perceptron:
    """Columns of the first weight, rows of the second: one sum over the workers."""

    I.module_global_infos({"mesh": [R.device_mesh((2,), I.Range(0, 2))]})

    @R.function
    def main(
        x: R.Tensor((4, 8), "float32"),
        w1: R.Tensor((8, 16), "float32"),
        b1: R.Tensor((16,), "float32"),
        w2: R.Tensor((16, 8), "float32"),
    ):
        with R.dataflow():
            w = R.dist.annotate_sharding(w1, device_mesh="mesh[0]", placement="S[1]")
            a = R.nn.gelu(R.add(R.matmul(x, w), b1))
            b = R.matmul(a, w2)
            c = R.nn.softmax(R.multiply(b, R.const(2.0)), axis=1)
            R.output(c)
        return c


@I.ir_module
class Conflicts:
    """Placements that have to change: along other axes, to copies, back to parts."""

    I.module_global_infos({"mesh": [R.device_mesh((2,), I.Range(0, 2))]})

    @R.function
    def main(x: R.Tensor((4, 8), "float32"), y: R.Tensor((4, 8), "float32")):
        with R.dataflow():
            a = R.dist.annotate_sharding(x, device_mesh="mesh[0]", placement="S[1]")
            b = R.nn.softmax(a, axis=1)
            c = R.dist.annotate_sharding(b, device_mesh="mesh[0]", placement="S[0]")
            d = R.add(c, y)
            e = R.dist.annotate_sharding(d, device_mesh="mesh[0]", placement="S[1]")
            f = R.reshape(R.mean(e, axis=0), (2, 4))
            g = R.concat([f, R.sum(R.reshape(e, (2, 2, 8)), axis=[2])], axis=1)
            h = R.split(g, 2, axis=0)
            i = R.add(h[0], R.const(np.arange(6, dtype="float32")))
            R.output(i)
        return i


CASES = [(Perceptron, [(4, 8), (8, 16), (16,), (16, 8)]), (Conflicts, [(4, 8), (4, 8)])]


def arrays_of(shapes):
    rng = np.random.default_rng(2)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize(("module", "shapes"), CASES)
def test_workers_compute_the_program(module, shapes):
    arrays = arrays_of(shapes)
    expected = interpreter.run(module, "main", *arrays)
    for found in run_workers(lowered(module), 2, *arrays):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_parameters_follow_from_their_first_use():
    text = transform.PropagateSharding()(Perceptron)["main"].script()
    placed = transform.PropagateSharding()(Perceptron)["main"].params
    assert [one.struct_info.placement.text for one in placed] == ["R", "S[1]", "S[0]", "S[0]"]
    assert "redistribute" not in text and "annotate_sharding" not in text
    text = lowered(Perceptron)["main"].script()
    assert text.count("allreduce") == 1 and "allgather" not in text
    text = lowered(Conflicts)["main"].script()
    assert "allgather" in text and "redistribute_replica_to_shard" in text


def test_one_worker_runs():
    @I.ir_module
    class Alone:
        I.module_global_infos({"mesh": [R.device_mesh((1,), I.Range(0, 1))]})

        @R.function
        def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 6), "float32")):
            with R.dataflow():
                a = R.dist.annotate_sharding(x, device_mesh="mesh[0]", placement="S[1]")
                b = R.matmul(a, w)
                R.output(b)
            return b

    module = lowered(Alone)
    assert "allreduce" in module["main"].script()
    x, w = arrays_of([(4, 8), (8, 6)])
    np.testing.assert_allclose(ts.relax.build(module, "llvm")(x, w).numpy(), x @ w, rtol=1e-4)
    # annotations alone do not change what a program computes
    np.testing.assert_allclose(ts.relax.build(Alone, "llvm")(x, w).numpy(), x @ w, rtol=1e-4)


def test_several_workers_are_refused():
    with pytest.raises(UnsupportedError, match="for 2 workers, and there is one"):
        ts.relax.build(lowered(Perceptron), "llvm")
    with pytest.raises(UnsupportedError, match="2 workers"):
        interpreter.run(lowered(Perceptron), "main", *arrays_of(CASES[0][1]))


def test_refused_programs():
    legal = relax.transform.LegalizeOps()(Conflicts)
    assert transform.PropagateSharding()(legal) is not None  # no annotation is left

    @I.ir_module
    class Square:
        I.module_global_infos({"mesh": [R.device_mesh((2, 2), I.Range(0, 4))]})

        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                a = R.dist.annotate_sharding(x, device_mesh="mesh[0]", placement="S[0], S[1]")
                b = R.exp(a)
                R.output(b)
            return b

    placed = transform.PropagateSharding()(Square)
    assert placed["main"].ret_struct_info.placement.text == "S[0], S[1]"
    assert placed["main"].ret_struct_info.local().concrete_shape == (2, 4)
    with pytest.raises(UnsupportedError, match="one axis"):
        transform.LowerDistIR()(placed)
    with pytest.raises(UnsupportedError, match="is left"):
        transform.LowerDistIR()(
            ts.IRModule({"main": transform.PropagateSharding()(Conflicts)["main"]})
        )
