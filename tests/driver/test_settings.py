"""The options of a `PassContext` reach the kernels of a model, through workers and caches, too."""

import pytest

import tilesmith as ts
from tilesmith import relax, te
from tilesmith.driver.kernels import KernelJob, compile_job, handle_job, request_for
from tilesmith.driver.settings import deciding_settings
from tilesmith.ir import IRModule, save_json
from tilesmith.ir.transform import PassContext
from tilesmith.script import from_source
from tilesmith.target import Target

SOURCE = """
@T.prim_func
def scaled(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.vectorized(64):
        with T.block("b"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * T.float32(2)
"""


def job():
    return KernelJob({"scaled": from_source(SOURCE)}, Target("llvm"), schedule=False)


def code(work):
    return compile_job(work.renamed(), work.target, work.schedule)


def through_a_worker(work):
    """What a worker makes of a job, in a context that has none of the settings."""
    request = request_for(work)
    with PassContext():
        return handle_job(request, [save_json(work.renamed()).encode()])[1][0]


def test_the_defaults_are_told_by_nothing():
    assert deciding_settings() == {}
    assert job().settings == {} and job().key == job().key


@pytest.mark.parametrize(
    "arguments",
    [
        {"config": {"tir.disable_vectorize": True}},
        {"disabled_pass": ["tir.StorageRewrite"]},
        {"opt_level": 0},
        {"required_pass": ["tir.HoistIfThenElse"]},
    ],
)
def test_settings_are_part_of_the_key_and_of_the_message(arguments):
    plain = job()
    with PassContext(**arguments):
        other = job()
        made = code(other)
    assert other.settings and other.key != plain.key
    assert through_a_worker(other) == made


def test_passes_of_the_user_stay_in_this_process():
    with PassContext(config={"tir.add_lower_pass": [(0, lambda func, mod, ctx: func)]}):
        assert deciding_settings() is None and job().settings is None


@pytest.mark.parametrize("count", [1, 5])
def test_lines_of_the_program_reach_the_code_of_models(count, tmp_path):
    """Also with so many kernels that workers compile them."""
    x = relax.Var("x", relax.TensorStructInfo((8, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        value = x
        for number in range(count):
            value = builder.emit(relax.op.sum(value, axis=1, keepdims=True))
            value = builder.emit(relax.op.concat([value] * (number + 2), axis=1))
        builder.emit_func_output(value)
    for options, expected in (({}, False), ({"tir.enable_debug": True}, True)):
        with PassContext(config=options):
            executable = relax.build(builder.get(), target="llvm")
        executable.export_library(tmp_path / "model.so")
        assert (b".debug_line" in (tmp_path / "model.so").read_bytes()) is expected


def test_functions_outside_of_models():
    a = te.placeholder((4,), name="A")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1)])
    with PassContext(config={"tir.enable_debug": True}):
        assert "!dbg" in ts.compile(IRModule({"main": func})).get_source("ll")


def test_workers_compile_deep_expressions():
    """Found by models of scikit-learn: distances unrolled over the features."""
    x = te.placeholder((64,), "float32", "x")

    def sum_of_many(i):
        value = x[i]
        for k in range(400):
            value = te.sin(value) * ts.tir.const(k, "float32")
        return value

    function = te.create_prim_func([x, te.compute((64,), sum_of_many, "y")])
    work = KernelJob({"deep": function}, Target("llvm"), schedule=True)
    text = save_json(work.renamed()).encode()
    handle_job(request_for(work), [text])
