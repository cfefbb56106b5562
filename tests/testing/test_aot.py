"""Models are compiled to C, run here, and compared."""

from pathlib import Path

import numpy as np
import pytest

from tests.micro.board_programs import needs_compiler
from tilesmith import relay
from tilesmith.compat import tvm as alias
from tilesmith.ir import IRModule
from tilesmith.support.errors import ConfigError, ExecutionError, UnsupportedError
from tilesmith.testing import aot

X = np.arange(6, dtype="float32").reshape(2, 3)


def two_outputs():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(2, 3))
    return IRModule.from_expr(
        relay.Function([x, w], relay.Tuple([relay.add(x, w), relay.multiply(x, w)]))
    )


@needs_compiler
def test_a_model_is_compiled_and_run(tmp_path, capsys):
    module, params = two_outputs(), {"w": np.full((2, 3), 2, "float32")}
    outputs = aot.generate_ref_data(module, {"x": X}, params)
    assert list(outputs) == ["output", "output2"]
    np.testing.assert_array_equal(outputs["output"], X + 2)
    model = aot.AOTTestModel(module, {"x": X}, outputs, params=params, name="both")
    assert aot.compile_and_run(
        model, aot.AOTTestRunner(), "c", True, test_dir=str(tmp_path), verbose=True
    )
    assert "tvmgen_both_run" in (tmp_path / "both_lib0.c").read_text()
    assert f"both: {tmp_path}" in capsys.readouterr().out
    assert aot.compile_and_run(
        model, aot.AOTTestRunner(), "packed", False, test_dir=str(tmp_path), verbose=True
    )
    assert "main" in (tmp_path / "both.c").read_text()


@needs_compiler
def test_programs_for_boards_are_processes_of_their_own():
    module, params = two_outputs(), {"w": np.full((2, 3), 2, "float32")}
    wanted = {"sum": X + 2, "product": X * 2}
    model = aot.AOTTestModel(module, {"x": X}, wanted, params=params)
    runner = aot.AOTTestRunner(
        prologue='puts("before");', epilogue='printf("%d after\\n", (int)INT8_MAX);',
        includes=["limits.h"], pass_config={"tir.usmp.use_workspace_io": True},
    )  # fmt: skip
    assert aot.compile_and_run(
        model, runner, "c", True, checker=lambda text: text == "before\n127 after\n"
    )
    (compiled,) = aot.compile_models(model, "c", True)
    for options, error, words in (
        ({"use_workspace_io": True}, ConfigError, "not in its workspace"),
        ({"checker": lambda text: False}, ExecutionError, "refuses what 'default' prints"),
    ):
        with pytest.raises(error, match=words):
            aot.run_and_check([compiled], aot.AOTTestRunner(), "c", **options)
    one = aot.AOTCompiledTestModel(model._replace(outputs={"sum": X}), compiled.executor_factory)
    with pytest.raises(ExecutionError, match="has 2 outputs, 1 are named"):
        aot.run_and_check([one], aot.AOTTestRunner(), "c")
    wrong = aot.AOTCompiledTestModel(model._replace(inputs={"x": X[:1]}), compiled.executor_factory)
    with pytest.raises(ExecutionError, match="the model takes"):
        aot.run_and_check([wrong], aot.AOTTestRunner(), "c")
    with pytest.raises(ExecutionError, match="ended with the code"):
        aot.run_and_check([compiled], aot.AOTTestRunner(epilogue="return 7;"), "c")


def test_wrong_outputs_are_found():
    module, params = two_outputs(), {"w": np.full((2, 3), 2, "float32")}
    compiled = aot.compile_models(
        [aot.AOTTestModel(module, {"x": X}, {}, params=params)], "packed", False, target="llvm",
        enable_op_fusion=False,
    )  # fmt: skip
    (_, factory), runner = compiled[0], aot.AOTTestRunner()

    def check(tolerance, product, **options):
        wanted = {"sum": X + 2, "product": product}
        model = aot.AOTTestModel(module, {"x": X}, wanted, tolerance)
        return aot.run_and_check(
            [aot.AOTCompiledTestModel(model, factory)], runner, "packed", **options
        )

    assert check(None, X * 2 + 0.0005) and check(0.1, X * 2 + 0.05)
    with pytest.raises(ExecutionError, match="AOT_TEST_FAILURE.*'product'.* 0.5"):
        check(None, X * 2 + 0.5)
    with pytest.raises(ExecutionError, match="expected"):
        check(None, X * 2 + 0.5, print_output_on_mismatch=True)
    with pytest.raises(ExecutionError, match="another shape"):
        check(None, X[:1])
    with pytest.raises(UnsupportedError, match="'checker'"):
        check(None, X * 2, checker=lambda text: True)
    runner = aot.AOTTestRunner(makefile="corstone300")
    with pytest.raises(UnsupportedError, match="'makefile'"):
        check(None, X * 2)


def test_integers_agree_exactly():
    x = relay.var("x", shape=(2,), dtype="uint8")
    module = IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(1, "uint8"))))
    values = np.array([0, 254], "uint8")
    good, bad = np.array([1, 255], "uint8"), np.array([1, 254], "uint8")
    (compiled,) = aot.compile_models(aot.AOTTestModel(module, {}, {}), "c", True, target="llvm")
    for wanted, is_right in ((good, True), (bad, False)):
        model = aot.AOTTestModel(module, {"x": values}, {"y": wanted})
        pair = [aot.AOTCompiledTestModel(model, compiled.executor_factory)]
        if is_right:
            assert aot.run_and_check(pair, aot.AOTTestRunner(), "c")
        else:
            with pytest.raises(ExecutionError, match="wrong by 1"):
                aot.run_and_check(pair, aot.AOTTestRunner(), "c")


def test_tables_and_refusals():
    assert aot.NP_TYPE_TO_C["uint8"] == "uint8_t" and aot.NP_TYPE_TO_C["float32"] == "float"
    assert aot.get_dtype_range("int8") == (-128, 127)
    least, most = aot.get_dtype_range("float32")
    assert least == -most == np.finfo("float32").min


def test_models_of_tensorflow_lite():
    path = Path(__file__).parents[1] / "relay" / "frontend" / "models" / "network_int8.tflite"
    mod, params = aot.convert_to_relay(path.read_bytes(), False)
    assert len(mod["main"].params) == 1 + len(params)
    mod, inputs, params = aot.create_relay_module_and_inputs_from_tflite_file(str(path))
    assert [one.name_hint for one in mod["main"].params] == list(inputs) and params
    assert [(x.dtype.name, x.shape) for x in inputs.values()] == [("int8", (1, 17, 15, 3))]


def test_users_names():
    alias.install()
    try:
        import tvm

        assert tvm.testing.aot.AOTTestModel is aot.AOTTestModel
        with pytest.raises(UnsupportedError, match="no tuning yet"):
            tvm.testing.autotvm.get_sample_task()
    finally:
        alias.uninstall()
