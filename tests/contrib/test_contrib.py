import os

import numpy as np
import pytest

from tilesmith.contrib import cc, cudnn, dlpack, graph_executor, tar, utils
from tilesmith.runtime.devices import Device
from tilesmith.runtime.module import Module, load_module, module_from_functions
from tilesmith.runtime.ndarray import array
from tilesmith.runtime.params import save_param_dict
from tilesmith.support.errors import (
    ArtifactError,
    CodegenError,
    TypeMismatchError,
    UnknownNameError,
)


@pytest.fixture(scope="module")
def object_code():
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="default"
    )
    text = "define i32 @__tvm_ffi_nothing(ptr %a, ptr %b, i32 %c, ptr %d) {\n  ret i32 0\n}"
    return machine.emit_object(llvm.parse_assembly(text))


def test_folders(tmp_path):
    folder = utils.tempdir()
    with open(folder / "x", "w") as file:
        file.write("1")
    assert folder.listdir() == ["x"] and folder.relpath("x").startswith(folder.path)
    folder.remove()
    assert not os.path.exists(folder.path)
    stays = utils.tempdir(str(tmp_path / "stays"))
    stays.remove()
    assert os.path.isdir(stays.path)


def test_lock(tmp_path, monkeypatch):
    path = str(tmp_path / "lock")
    with utils.filelock(path):
        monkeypatch.setattr(utils, "_LOCK_TIMEOUT_SECONDS", 0.05)
        with pytest.raises(RuntimeError, match="was not released"):
            utils.filelock(path)
    assert not os.path.exists(path)


@pytest.mark.parametrize("suffix", ["so", "tar"])
def test_exporting_with_them(object_code, tmp_path, suffix):
    module = Module("llvm", objects=[object_code])
    path = str(tmp_path / f"m.{suffix}")
    module.export_library(path, fcompile={"so": cc.create_shared, "tar": tar.tar}[suffix])
    assert load_module(path)["nothing"]() is None


@pytest.mark.skipif(cc.get_cc() is None, reason="no C compiler")
def test_compilers(tmp_path):
    (tmp_path / "x.c").write_text("int main(void) { return 3; }\n")
    cc.create_executable("x", ["x.c"], cwd=str(tmp_path))
    assert os.system(str(tmp_path / "x")) >> 8 == 3
    (tmp_path / "y.c").write_text("nonsense\n")
    with pytest.raises(CodegenError, match="(?s)failed\n.*y.c"):
        cc.create_shared("y.so", ["y.c"], cwd=str(tmp_path))


def test_archives(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.o").write_text(folder)
    tar.tar(str(tmp_path / "t.tar"), [str(tmp_path / "a/x.o"), str(tmp_path / "b/x.o")])
    tar.untar(str(tmp_path / "t.tar"), str(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path / "out")) == ["1_x.o", "x.o"]
    (tmp_path / "bad.tar").write_text("no")
    with pytest.raises(ArtifactError):
        tar.untar(str(tmp_path / "bad.tar"), str(tmp_path))


def test_modules_of_python_functions():
    module = module_from_functions(
        {"add": lambda a, b, out: out.copyfrom(np.add(a.numpy(), b.numpy()))}
    )
    out = np.zeros(3, "float32")
    module["add"](np.ones(3, "float32"), np.arange(3, dtype="float32"), out)
    assert out.tolist() == [1, 2, 3]


class FakeModel:
    """Has what a graph module needs of an executable."""

    def get_function(self, name):
        from tilesmith.runtime.signature import parse_signature

        tensor = {"kind": "tensor", "shape": [2], "dtype": "float32"}
        entry = {"params": [{**tensor, "name": n} for n in "ab"], "result": tensor}

        def main(**inputs):
            return np.add(np.asarray(inputs["a"]), np.asarray(inputs["b"]))

        main.signature = parse_signature(name, entry)
        return main


def test_graph_module():
    module = graph_executor.GraphModule(FakeModel())
    with pytest.raises(TypeMismatchError, match="call run"):
        module.get_output(0)
    module.set_input("a", np.ones(2, "float32"))
    module.set_input(1, np.ones(2, "float32"))
    module.run()
    assert module.get_output(0).tolist() == [2, 2]
    module.run(b=np.zeros(2, "float32"))
    assert module.get_output(0).tolist() == [1, 1]
    assert (module.get_num_inputs(), module.get_num_outputs()) == (2, 1)
    assert module.get_input_index("b") == 1 and module.get_input_index("c") == -1
    assert module.get_input_info()[1] == {"a": "float32", "b": "float32"}
    assert module.benchmark(number=1, repeat=2).mean > 0
    with pytest.raises(UnknownNameError, match="no input 'c'"):
        module.set_input(c=1)
    with pytest.raises(UnknownNameError, match="2 inputs"):
        module.set_input(5, 1)


def test_outputs_and_parameters_are_shared():
    first, second = (graph_executor.GraphModule(FakeModel()) for _ in range(2))
    first.set_input(a=np.ones(2, "float32"), b=np.full(2, 5, "float32"))
    second.set_input(a=np.ones(2, "float32"))
    second.share_params(first, save_param_dict({"b": np.zeros(2, "float32"), "z": np.zeros(1)}))
    assert second.get_input("b") is first.get_input("b")
    out = array(np.zeros(2, "float32"))
    second.set_output_zero_copy(0, out)
    second.run()
    assert out.numpy().tolist() == [6, 6]
    with pytest.raises(UnknownNameError, match="1 outputs, not 3"):
        second.set_output_zero_copy(3, out)


def test_devices_of_modules():
    assert graph_executor.get_device(None, Device("cpu")) == ([Device("cpu")], 0, [1, 0])
    with pytest.raises(TypeMismatchError, match="not str"):
        graph_executor.get_device(None, ["cpu"])


@pytest.mark.parametrize(
    "kind, name, number",
    [("fwd", "GEMM", 2), ("bwd_filter", "WINOGRAD", 4), ("bwd_data", "FFT", 2)],
)
def test_numbers_of_algorithms(kind, name, number):
    word = f"CUDNN_CONVOLUTION_{kind.upper()}_ALGO_"
    assert cudnn.algo_to_index(kind, word + name) == number
    with pytest.raises(UnknownNameError, match=f"known: {word}"):
        cudnn.algo_to_index(kind, "GEMM")
    with pytest.raises(UnknownNameError, match="none of fwd"):
        cudnn.algo_to_index("forward", word + name)


def test_functions_of_tensors_of_other_frameworks():
    class Tensor:
        def __init__(self, values):
            self.values = values

    def add_into(source, result, number):
        result.copyfrom(source.numpy() + number)

    function = dlpack.convert_func(add_into, Tensor, lambda one: one.values.__dlpack__())
    source, result = np.arange(4.0), np.zeros(4)
    function(Tensor(source), Tensor(result), 2)
    np.testing.assert_array_equal(result, source + 2)


def test_functions_of_tensors_of_torch():
    torch = pytest.importorskip("torch")
    result = torch.zeros(4)
    dlpack.to_pytorch_func(lambda source, out: out.copyfrom(source.numpy() * 2))(
        torch.ones(4), result
    )
    assert result.tolist() == [2, 2, 2, 2]
