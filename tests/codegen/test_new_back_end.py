"""A back end of one's own: a kind of target and one record, outside the package."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax, te
from tilesmith.codegen import BackEnd, Code, register_back_end
from tilesmith.codegen.c import compile_source, emit_source, find_compiler
from tilesmith.script import relax as R
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import declare_kind

# -- a newcomer's back end: it lists the statements of each function ------------------------------

declare_kind("outline", options="indent:int=2")


def write_outline(module, target, opt_level):
    lines = []

    def visit(node, depth):
        if isinstance(node, ts.tir.Stmt):
            lines.append(" " * depth * target.attrs["indent"] + type(node).__name__)
            for child in node.children():
                visit(child, depth + 1)

    for variable, function in module.functions.items():
        lines.append(f"function {variable.name_hint}")
        visit(function.body, 1)
    return Code({"txt": "\n".join(lines)}, advice="read it aloud")


register_back_end(BackEnd("outline", kinds=("outline",), generate=write_outline))

# -- another one with object code: C with a comment of its own ------------------------------------

declare_kind("polite_c")


def write_politely(module, target, opt_level):
    source = "/* With kind regards */\n" + emit_source(module)
    return Code({"c": source}, lambda: [compile_source(source, target)])


register_back_end(
    BackEnd(
        "polite_c",
        kinds=("polite_c",),
        generate=write_politely,
        load="tilesmith.runtime.library:Library.from_linked",
        default_schedule="tilesmith.schedule_rules.default:schedule_for_cpu",
        describe=lambda: "as polite as can be",
    )
)

# -- what they can do -----------------------------------------------------------------------------


def doubled():
    a = te.placeholder((8,), name="A")
    return te.create_prim_func([a, te.compute((8,), lambda i: a[i] * 2, name="B")])


def model():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, relax.const(np.ones((8, 3), "float32"))))
            result = builder.emit_output(relax.op.nn.relu(product))
        builder.emit_func_output(result)
    return builder.get()


def test_a_back_end_that_writes_text(tmp_path):
    module = ts.build(doubled(), target="outline -indent=3")
    assert module.type_key == "outline" and module.format == "txt" and not module.is_runnable
    assert "\n      BufferStore" in module.get_source()
    module.save(tmp_path / "code.txt")
    assert (tmp_path / "code.txt").read_text() == module.get_source("txt")
    with pytest.raises(UnsupportedError, match="source only: get_source.'txt'.*read it aloud"):
        module.export_library(tmp_path / "code.so")


def test_a_whole_model_as_text():
    executable = relax.build(model(), target="outline")
    text = executable.get_source()
    assert "function __tvm_ffi_main" in text and text.count("function kernel_") == 1
    with pytest.raises(UnsupportedError, match="(?s)cannot be called.*read it aloud"):
        executable(np.ones((4, 8), "float32"))


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler here")
def test_a_back_end_with_object_code():
    module = ts.build(doubled(), target="polite_c")
    result = np.zeros(8, "float32")
    module(np.arange(8, dtype="float32"), result)
    np.testing.assert_array_equal(result, 2 * np.arange(8))
    executable = relax.build(model(), target="polite_c")
    assert executable.get_source().startswith("/* With kind regards */")
    x = np.arange(32, dtype="float32").reshape(4, 8)
    want = np.repeat(x.sum(1, keepdims=True), 3, axis=1)
    np.testing.assert_allclose(executable(x).numpy(), want)


def test_doctor_knows_it():
    from tilesmith.cli.doctor import check_target

    state = check_target("polite_c")
    assert state.detail == "as polite as can be" or find_compiler() is None
