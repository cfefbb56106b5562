"""Models become packages, packages run: from Python and from the command line."""

import argparse
import io
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from tests.compat.tvmc.conftest import TEXT, WEIGHT
from tilesmith import relay, rpc
from tilesmith.compat.tvm import tvmc
from tilesmith.compat.tvm.tvmc import composite_target
from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.compat.tvm.tvmc.main import REGISTERED_PARSER, _main, register_parser
from tilesmith.compat.tvm.tvmc.model import TVMCModel, TVMCPackage, TVMCResult
from tilesmith.compat.tvm.tvmc.result_utils import get_top_results
from tilesmith.compat.tvm.tvmc.runner import (
    generate_tensor_data,
    get_input_info,
    make_inputs_dict,
)
from tilesmith.driver.model import import_model
from tilesmith.ir import IRModule

X = np.arange(6, dtype="float32").reshape(2, 3)
EXPECTED = np.maximum(X @ WEIGHT.T, 0)


def check(result, expected=EXPECTED):
    np.testing.assert_allclose(result.get_output("output_0"), expected, rtol=1e-5)


def test_a_package_has_code_graph_and_weights(package_path):
    with tarfile.open(package_path) as archive:
        assert sorted(archive.getnames()) == ["mod.json", "mod.params", "mod.so"]
    package = TVMCPackage(package_path)
    assert (package.executor_type, package.lib_name) == ("graph", "mod.so")
    shapes, dtypes = get_input_info(package.graph, {"p0": None})
    assert shapes == {"x": (2, 3)} and dtypes == {"x": "float32"}
    result = tvmc.run(package, "cpu", inputs={"x": X}, benchmark=True, repeat=3, number=2)
    check(result)
    assert len(result.times.results) == 3 and "mean (ms)" in result.format_times()


TWO_KERNELS = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32]) {
  %0 = nn.softmax(%x);
  nn.softmax(%0)
}
"""


@pytest.mark.parametrize("pools", [[], ["--workspace-pools", "sram"]])
def test_a_package_for_a_board_has_c_files(tmp_path, capsys, pools):
    path, model = str(tmp_path / "board.tar"), tmp_path / "two.relay"
    model.write_text(TWO_KERNELS)
    text = (
        f"compile {model} -o {path} -f mlf --target c --executor aot --module-name net "
        "--executor-aot-interface-api c --executor-aot-unpacked-api 1 --runtime crt"
    )
    assert _main([*text.split(), *pools]) == 0
    with tarfile.open(path) as archive:
        header = archive.extractfile("codegen/host/include/tvmgen_net.h").read().decode()
    assert ("void* sram;" in header) == bool(pools) and "tvmgen_net_run" in header
    package = TVMCPackage(path)
    assert (package.type, package.lib_name, package.executor_type) == ("mlf", "net", "aot")
    with pytest.raises(TVMCException, match="do not run here"):
        tvmc.run(package, "cpu")
    assert _main(["run", path]) == 1 and "do not run here" in capsys.readouterr().err
    small = [*pools, "--workspace-pools-size-hint-bytes", "sram:8"]
    if pools:
        assert _main([*text.split(), *small]) == 1
        assert "'sram' has 8 bytes" in capsys.readouterr().err


def test_a_program_for_a_board_is_no_library(onnx_path):
    model = tvmc.load(onnx_path, shape_dict={"x": [2, 3]})
    options = {"executor": relay.backend.Executor("aot"), "runtime": relay.backend.Runtime("crt")}
    with pytest.raises(TVMCException, match="not packed in the format so"):
        tvmc.compile(model, "c", **options)


def test_inputs_are_filled_in(package_path, capsys):
    package = TVMCPackage(package_path)
    ones = np.maximum(np.ones((2, 3), "float32") @ WEIGHT.T, 0)
    check(tvmc.run(package, "cpu", fill_mode="ones", profile=True), ones)
    assert "Duration (us)" in capsys.readouterr().out
    check(tvmc.run(package, "cpu", fill_mode="zeros"), np.zeros((2, 4)))
    assert tvmc.run(package, "cpu").get_output("output_0").shape == (2, 4)
    with pytest.raises(TVMCException, match="no input 'z'"):
        tvmc.run(package, "cpu", inputs={"z": X})
    with pytest.raises(TVMCException, match="CPU"):
        tvmc.run(package, "cuda")
    with pytest.raises(TVMCException, match="compile"):
        tvmc.run(package_path, "cpu")


def test_packages_run_on_other_machines(package_path):
    server = rpc.Server("127.0.0.1", 0)
    try:
        check(
            tvmc.run(
                TVMCPackage(package_path), "cpu", "127.0.0.1", server.port, inputs={"x": X},
                benchmark=True, repeat=2, number=1,
            )
        )  # fmt: skip
    finally:
        server.terminate()


@pytest.mark.parametrize(
    "options, members, kind",
    [
        ({"output_format": "tar"}, ["mod.json", "mod.params", "mod.tar"], "graph"),
        ({"use_vm": True}, ["code.ro", "mod.so"], "vm"),
    ],
)
def test_forms_of_packages(onnx_path, tmp_path, options, members, kind):
    model = tvmc.load(onnx_path, shape_dict={"x": [2, 3]})
    package = tvmc.compile(model, "llvm", package_path=str(tmp_path / "m.tar"), **options)
    with tarfile.open(package.package_path) as archive:
        assert sorted(archive.getnames()) == members
    assert package.executor_type == kind
    check(tvmc.run(package, "cpu", inputs={"x": X}, benchmark=True, repeat=1, number=1))


def test_code_for_other_machines(onnx_path, tmp_path):
    model = tvmc.load(onnx_path, shape_dict={"x": [2, 3]})
    target, path = "llvm -mtriple=aarch64-linux-gnu", str(tmp_path / "arm.tar")
    package = tvmc.compile(model, target, package_path=path, output_format="tar")
    with zipfile.ZipFile(package.lib_path) as artifact:
        objects = [name for name in artifact.namelist() if name.endswith((".o", ".so"))]
        machine = int.from_bytes(artifact.read(objects[0])[18:20], "little")
    assert machine == 183  # the number of AArch64 in ELF


@pytest.mark.parametrize("executor", ["aot", None])
def test_open_sizes_need_a_value(onnx_path, executor):
    """Their graph cannot be written as JSON, so the package of the graph executor has none."""
    model = tvmc.load(onnx_path)
    package = tvmc.compile(model, "llvm", executor=executor and relay.backend.Executor(executor))
    assert package.executor_type == "aot" and package.graph is None
    check(tvmc.run(package, "cpu", inputs={"x": X}))
    with pytest.raises(TVMCException, match="open sizes"):
        tvmc.run(package, "cpu")


def test_programs_of_relay(relay_path, tmp_path, capsys):
    model = tvmc.load(relay_path)
    assert model.params == {}
    package = tvmc.compile(
        model, "llvm", package_path=str(tmp_path / "r.tar"), dump_code="relay,tir,ll,asm",
        dump_offloads="-", print_pass_times=True, print_ir_after=["FuseOps"], disabled_pass="",
        pass_context_configs=["tir.disable_vectorize=true"],
    )  # fmt: skip
    check(tvmc.run(package, "cpu", inputs={"x": X, "w": WEIGHT}))
    shown = capsys.readouterr().out
    assert "nn.dense: 1 of 1" in shown and "after FuseOps:" in shown and "time of the" in shown
    texts = {form: (tmp_path / f"r.tar.{form}").read_text() for form in ("relay", "tir", "ll")}
    assert "nn.dense" in texts["relay"] and "T.prim_func" in texts["tir"]
    assert "define " in texts["ll"] and "x float>" not in texts["ll"]  # no vectors
    assert ".globl" in (tmp_path / "r.tar.asm").read_text()


def test_parameters_without_a_shape_are_weights(relay_path):
    model = tvmc.load(relay_path, shape_dict={"x": [2, 3]})
    assert list(model.params) == ["w"] and model.params["w"].shape == (4, 3)
    again = tvmc.load(relay_path, shape_dict={"x": [2, 3]})
    np.testing.assert_array_equal(model.params["w"].numpy(), again.params["w"].numpy())
    with pytest.raises(TVMCException, match="no parameter 'z'"):
        tvmc.load(relay_path, shape_dict={"z": [1]})


def test_models_are_saved(relay_path, tmp_path):
    model = tvmc.load(relay_path, shape_dict={"x": [2, 3]})
    model.save(tmp_path / "model.tar")
    again = TVMCModel(model_path=tmp_path / "model.tar")
    assert str(again.mod) == str(model.mod)
    np.testing.assert_array_equal(again.params["w"].numpy(), model.params["w"].numpy())
    stream = io.StringIO()
    again.summary(file=stream)
    assert "nn.dense" in stream.getvalue()
    assert again.default_package_path().endswith("model_package.tar")
    assert again.default_tuning_records_path() != again.default_package_path()
    with pytest.raises(TVMCException, match="module and its params"):
        TVMCModel()


def test_members_do_not_leave_the_folder(package_path, tmp_path):
    bad = tmp_path / "bad.tar"
    with tarfile.open(bad, "w") as archive:
        archive.add(package_path, "../outside.txt")
    with pytest.raises(TVMCException, match="cannot be unpacked"):
        TVMCPackage(bad)
    assert not (tmp_path.parent / "outside.txt").exists()
    bad.write_bytes(b"no tar")
    with pytest.raises(TVMCException, match="cannot be unpacked"):
        TVMCPackage(bad)
    with tarfile.open(bad, "w"):
        pass
    for wrong, message in ((bad, "no package"), (tmp_path / "none.tar", "there is no file")):
        with pytest.raises(TVMCException, match=message):
            TVMCPackage(wrong)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tuning_records": "x.json"}, "tuning"), ({"cross": "gcc"}, "cross compiler"),
        ({"output_format": "mlf"}, "built for this machine"),
        ({"output_format": "zip"}, "no format 'zip'"),
        ({"desired_layout": ["NCHW", "NHWC"], "desired_layout_ops": ["nn.conv2d"]}, "2 layouts"),
        ({"target": "llvm, dnnl -x=1"}, "has no options"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_says_so(onnx_path, options, message):
    model = tvmc.load(onnx_path, shape_dict={"x": [2, 3]})
    with pytest.raises(TVMCException, match=message):
        tvmc.compile(model, **{"target": "llvm", **options})


@pytest.mark.parametrize("is_relax", [False, True])
def test_half_precision(onnx_path, is_relax):
    module = import_model(onnx_path, {"x": [2, 3]})
    model = TVMCModel(module) if is_relax else tvmc.load(onnx_path, shape_dict={"x": [2, 3]})
    package = tvmc.compile(
        model, "llvm", mixed_precision=True, mixed_precision_acc_type="float32", dump_code="relay"
    )
    with open(package.package_path + ".relay") as file:
        assert "float16" in file.read()
    found = tvmc.run(package, "cpu", inputs={"x": X}).get_output("output_0")
    np.testing.assert_allclose(found, EXPECTED, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"desired_layout": "NCHW"}, "desired_layout"),
        ({"mixed_precision": True, "mixed_precision_ops": ["nn.dense"]}, "mixed_precision_ops"),
        ({"target": "llvm, dnnl"}, "programs of Relay"),
    ],
)
def test_what_graphs_of_relax_do_not_have(onnx_path, options, message):
    model = TVMCModel(import_model(onnx_path, {"x": [2, 3]}))
    with pytest.raises(TVMCException, match=message):
        tvmc.compile(model, **{"target": "llvm", **options})


def test_layouts_of_convolutions():
    x, w = relay.var("x", shape=(1, 3, 5, 5)), relay.var("w", shape=(4, 3, 3, 3))
    module = IRModule.from_expr(relay.Function([x, w], relay.nn.conv2d(x, w)))
    random = np.random.default_rng(0)
    shapes = {"x": (1, 3, 5, 5), "w": (4, 3, 3, 3)}
    values = {name: random.random(shape, "float32") for name, shape in shapes.items()}
    found = []
    for layout in (None, ["NHWC"]):
        package = tvmc.compile(TVMCModel(module), "llvm", desired_layout=layout, dump_code="relay")
        found.append(tvmc.run(package, "cpu", inputs=values).get_output("output_0"))
        with open(package.package_path + ".relay") as file:
            assert ('data_layout="NHWC", kernel_layout="HWIO"' in file.read()) == bool(layout)
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_models_are_divided_among_compilers(onnx_path, capsys):
    """By one that this program brings: what it got is written, no code is made for it."""

    def divide(mod, params):
        return relay.transform.AnnotateTarget("ccompiler")(mod)

    composite_target.REGISTERED_CODEGEN["mine"] = {"config_key": None, "pass_pipeline": divide}
    try:
        model = tvmc.load(onnx_path, shape_dict={"x": [2, 3]})
        package = tvmc.compile(model, "llvm, mine", dump_offloads="-")
        assert "calls of operators" in capsys.readouterr().out
        check(tvmc.run(package, "cpu", inputs={"x": X}))
    finally:
        del composite_target.REGISTERED_CODEGEN["mine"]


def test_models_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    path = str(tmp_path / "m.pt")
    torch.jit.trace(torch.nn.ReLU(), torch.ones(2, 3)).save(path)
    package = tvmc.compile(tvmc.load(path, shape_dict={"x": [2, 3]}), "llvm")
    check(tvmc.run(package, "cpu", inputs={"x": X - 2}), np.maximum(X - 2, 0))
    with pytest.raises(TVMCException, match="--input-shapes"):
        tvmc.load(path)
    (tmp_path / "m.pt").write_bytes(b"no model")
    with pytest.raises(TVMCException, match="TorchScript"):
        tvmc.load(path, shape_dict={"x": [2, 3]})


def test_data_that_is_made():
    assert generate_tensor_data((2, 3), "int8", "ones").tolist() == [[1, 1, 1]] * 2
    floats = generate_tensor_data((50,), "float16", "random")
    assert floats.dtype == "float16" and 0 <= floats.min() and floats.max() <= 1
    whole = generate_tensor_data((50,), "uint8", "random")
    assert whole.dtype == "uint8" and whole.max() < 128
    with pytest.raises(TVMCException, match="fill mode"):
        generate_tensor_data((2,), "int8", "twos")
    made = make_inputs_dict({"a": (2,), "b": (1,)}, {"a": "int8", "b": "bool"}, {"a": 5}, "zeros")
    assert made["a"] == 5 and made["b"].tolist() == [False]


def test_results(tmp_path):
    result = TVMCResult({"output_0": np.array([[3.0, 9.0, 5.0]])})
    assert get_top_results(result, 2).tolist() == [[1, 2], [9, 5]]
    result.save(tmp_path / "y.npz")
    assert np.load(tmp_path / "y.npz")["output_0"].shape == (1, 3)
    assert result.format_times() == "nothing was measured"
    with pytest.raises(TVMCException, match="outputs: output_0"):
        result.get_output("output_1")


# The command line.


def test_the_command(onnx_path, tmp_path):
    np.savez(tmp_path / "x.npz", x=X)
    start = [sys.executable, "-m", "tilesmith.compat.tvm", "-m", "tvm.driver.tvmc"]

    def call(*arguments):
        return subprocess.run(
            [*start, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = call("compile", "--input-shapes", "x:[2,3]", "--executor", "graph", onnx_path)
    assert (done.returncode, done.stderr) == (0, "")
    done = call(
        "run", "-i", "x.npz", "-o", "y.npz", "--print-time", "--print-top", "2", "--repeat", "2",
        "module.tar",
    )  # fmt: skip
    assert done.returncode == 0 and "mean (ms)" in done.stdout
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["output_0"], EXPECTED, rtol=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["run", "none.tar"], "there is no file none.tar"),
        (["run", "PACKAGE", "-i", "none.npz"], "there is no file none.npz"),
        (["run", "PACKAGE", "-i", "PACKAGE"], "cannot be read as inputs"),
        (["run", "PACKAGE", "--repeat", "0"], "--repeat is at least 1"),
        (["compile", "none.onnx"], "there is no file none.onnx"),
        (["compile", "MODEL", "--target", "lvm"], "no target 'lvm'"),
        (["compile", "MODEL", "-o", "no/such/m.tar"], "the folder no/such does not exist"),
        (["compile", "MODEL", "--runtime", "crt"], "graph executor"),
        (["tune", "MODEL", "-o", "x"], "no tuning yet"),
        (["micro", "build", "--x"], "boards"),
        (["--config", "none", "run", "x"], "no settings 'none'"),
    ],
)
def test_errors_are_one_line(onnx_path, package_path, capsys, arguments, message):
    places = {"MODEL": onnx_path, "PACKAGE": package_path}
    assert _main([places.get(word, word) for word in arguments]) == 1
    text = capsys.readouterr().err
    assert text.startswith("Error: ") and message in text and text.count("\n") == 1


def test_wrong_command_lines(capsys):
    assert _main([]) == 1 and "usage: tvmc" in capsys.readouterr().err
    assert _main(["--version"]) == 0 and capsys.readouterr().out == "0.18.0\n"
    for arguments in (["compile", "--input-shapes", "x", "m"], ["compile", "--no-such", "m"]):
        with pytest.raises(SystemExit) as ended:
            _main(arguments)
        assert ended.value.code == 2
    assert "tvmc compile" in capsys.readouterr().err


def test_settings_are_defaults(relay_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text('{"targets": [{"kind": "c"}], "output": "o.tar"}')
    arguments = ["--config", "c.json", "compile", "--target", "llvm", relay_path]
    assert _main(arguments) == 0 and (tmp_path / "o.tar").is_file()


def test_verbs_are_registered(capsys):
    @register_parser
    def add(subparsers, main_parser, json_params):
        assert isinstance(main_parser, argparse.ArgumentParser)
        subparsers.add_parser("hello").set_defaults(func=lambda args: print("hello") or 0)

    try:
        assert _main(["hello"]) == 0 and capsys.readouterr().out == "hello\n"
    finally:
        REGISTERED_PARSER.remove(add)


def test_texts_of_relay_are_checked(tmp_path):
    path = tmp_path / "m.relay"
    path.write_text(TEXT.partition("\n")[2])
    with pytest.raises(TVMCException, match="no program of Relay"):
        tvmc.load(str(path))
