"""What tests ask about workspaces in code, and about the spans that importers write."""

import pytest

import tilesmith
from tilesmith.ir.transform import PassContext
from tilesmith.relax.expr import Call
from tilesmith.relax.frontend.options import FILL_SPAN
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.testing import disable_span_filling, enable_span_filling
from tilesmith.testing.usmp import is_tvm_backendallocworkspace_calls


def copied(size):
    @T.prim_func
    def main(A: T.Buffer((size,), "float32"), B: T.Buffer((size,), "float32")):
        T.func_attr({"global_symbol": "main"})
        C = T.alloc_buffer((size,), "float32")
        for i in range(size):
            with T.block("first"):
                v = T.axis.spatial(size, i)
                C[v] = A[v] * A[v]
        for i in range(size):
            with T.block("second"):
                v = T.axis.spatial(size, i)
                B[v] = C[size - 1 - v]

    return main


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("size, expected", [(16, False), (1 << 20, True)])
def test_code_that_asks_for_memory(target, size, expected):
    """A small array is on the stack."""
    module = tilesmith.build(copied(size), target=target)
    assert is_tvm_backendallocworkspace_calls(module) is expected


def test_modules_without_code_are_refused(tmp_path):
    path = str(tmp_path / "library.so")
    tilesmith.build(copied(16), target="llvm").export_library(path)
    with pytest.raises(UnsupportedError, match="cannot be told from its code"):
        is_tvm_backendallocworkspace_calls(tilesmith.runtime.load_module(path))


def spans():
    """Return the spans of the calls of an imported model."""
    onnx = pytest.importorskip("onnx")
    from tilesmith.relax.frontend.onnx import from_onnx

    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"], name="first")],
        "model",
        [onnx.helper.make_tensor_value_info("x", kind, [4])],
        [onnx.helper.make_tensor_value_info("y", kind, [4])],
    )
    main = from_onnx(onnx.helper.make_model(graph))["main"]
    bindings = [one for block in main.body.blocks for one in block.bindings]
    return [str(one.value.span) for one in bindings if isinstance(one.value, Call)]


def test_importers_write_spans_unless_told_not_to():
    assert spans() == ["Relu node 'first'"]
    with disable_span_filling():
        assert spans() == ["None"]
        with enable_span_filling():
            assert spans() == ["Relu node 'first'"]
    assert spans() == ["Relu node 'first'"]


def test_other_settings_stay():
    with PassContext(opt_level=1, disabled_pass=["tir.Simplify"]), disable_span_filling():
        inner = PassContext.current()
        assert inner.opt_level == 1 and "tir.Simplify" in inner.disabled_pass
        assert inner.config[FILL_SPAN] is False
