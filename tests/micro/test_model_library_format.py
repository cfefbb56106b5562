"""Packages for boards: what they hold, and that their files alone make a whole program."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.micro.board_programs import (
    built,
    check,
    interpreted,
    needs_compiler,
    network,
    two_outputs,
    workspace_pools,
)
from tilesmith import micro, relay
from tilesmith.compat import tvm as alias
from tilesmith.contrib.tar import untar
from tilesmith.ir import AllocatedPoolInfo, WorkspacePoolInfo
from tilesmith.micro import model_library_format
from tilesmith.micro.testing import utils
from tilesmith.relay.backend.board_module import BoardModule
from tilesmith.runtime.params import load_param_dict
from tilesmith.support.errors import (
    ArtifactError,
    ConfigError,
    TypeMismatchError,
    UnsupportedError,
    UnsupportedModuleError,
)
from tilesmith.testing.board_runs import run_here
from tilesmith.tir.usmp import PoolAllocation


def test_a_package_has_code_interface_memory_weights_and_program(tmp_path):
    model = network()
    lib = built(model, name="net", workspace_memory_pools=workspace_pools(sram=-1))
    path = tmp_path / "net.tar"
    assert micro.export_model_library_format(lib, path) == path
    with tarfile.open(path) as archive:
        assert sorted(archive.getnames()) == [
            "codegen/host/include/tvmgen_net.h",
            "codegen/host/src/net_lib0.c",
            "codegen/host/src/net_lib1.c",
            "metadata.json",
            "parameters/net.params",
            "src/relay.txt",
        ]
    untar(str(path), str(tmp_path))
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["version"] == 7
    described = metadata["modules"]["net"]
    assert (described["executors"], described["style"]) == (["aot"], "full-model")
    (main,) = described["memory"]["functions"]["main"]
    size = main["workspace_size_bytes"]
    assert main["pools"] == {"sram": size} and main["constants_size_bytes"] == 864 + 18144
    assert main["inputs"]["x"] == {"size": 972, "dtype": "float32", "shape": [1, 3, 9, 9]}
    operators = described["memory"]["functions"]["operator_functions"]
    names = {one["function_name"] for one in operators}
    code = (tmp_path / "codegen/host/src/net_lib1.c").read_text()
    assert len(names) > 2 and all(f"{name}(" in code for name in names)
    assert utils.mlf_extract_workspace_size_bytes(path) == size
    params = load_param_dict((tmp_path / "parameters/net.params").read_bytes())
    assert any(one.shape == (8, 3, 3, 3) for one in params.values())
    assert "nn.conv2d" in (tmp_path / "src/relay.txt").read_text()


@needs_compiler
def test_the_files_of_a_package_are_a_whole_program(tmp_path):
    model = two_outputs()
    lib = built(model, name="whole")
    micro.export_model_library_format(lib, tmp_path / "whole.tar")
    untar(str(tmp_path / "whole.tar"), str(tmp_path))
    host, library = tmp_path / "codegen" / "host", lib.get_lib()
    sources = {one.name: one.read_text() for one in (host / "src").iterdir()}
    headers = {one.name: one.read_text() for one in (host / "include").iterdir()}
    packed = BoardModule(
        "whole", sources, headers, library.inputs, library.outputs, library.memory, {}, "c"
    )
    check(run_here(packed, model[2], tmp_path)[0], interpreted(model))


def test_several_programs_share_a_package(tmp_path):
    libs = [built(network(), name="one"), built(two_outputs(), name="two")]
    path = micro.export_model_library_format(libs, tmp_path / "both.tar")
    with tarfile.open(path) as archive:
        names = archive.getnames()
    assert {"src/one.relay.txt", "src/two.relay.txt", "parameters/two.params"} <= set(names)
    with pytest.raises(ConfigError, match="two programs of the package are called 'one'"):
        micro.export_model_library_format([libs[0], libs[0]], tmp_path / "twice.tar")


def test_what_no_package_holds_is_refused(tmp_path):
    module, params, _ = network()
    here = relay.build(module, "c", params=params)
    for wrong, error, words in (
        (here, micro.UnsupportedInModelLibraryFormatError, "built for this process"),
        (module, TypeMismatchError, "what relay.build gives"),
        ([], ConfigError, "one program at least"),
    ):
        with pytest.raises(error, match=words):
            micro.export_model_library_format(wrong, tmp_path / "none.tar")
    assert not (tmp_path / "none.tar").exists()
    with tarfile.open(tmp_path / "other.tar", "w"):
        pass
    with pytest.raises(ArtifactError, match="no package for boards"):
        utils.mlf_extract_workspace_size_bytes(tmp_path / "other.tar")


def test_headers_of_ones_own(tmp_path):
    pool = AllocatedPoolInfo(WorkspacePoolInfo("sram", ["c"]), 640)
    path = model_library_format.generate_c_interface_header(
        "my-net", ["a", "b"], ["out"], {"sram": pool}, {}, ["npu"], 640, tmp_path, {"a": 12}
    )
    assert Path(path).name == "tvmgen_my_net.h"
    text = Path(path).read_text()
    for words in (
        "TVMGEN_MY_NET_A_SIZE 12", "TVMGEN_MY_NET_SRAM_WORKSPACE_POOL_SIZE 640", "void* npu;",
        "struct tvmgen_my_net_devices* devices", "TVMGEN_MY_NET_WORKSPACE_SIZE 640",
    ):  # fmt: skip
        assert words in text
    place = PoolAllocation(pool.pool_info, 0)
    path = model_library_format.generate_c_interface_header(
        "m", ["a"], [], {"sram": 64}, {"a": place}, [], 64, tmp_path
    )
    words = "struct tvmgen_m_inputs tvmgen_m_map_inputs(struct tvmgen_m_workspace_pools*"
    assert words in Path(path).read_text()


def test_arrays_become_headers(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        utils.create_header_file("in-0", np.array([[1, -2]], "int8"), "include", archive)
    with tarfile.open(tmp_path / "x.tar") as archive:
        text = archive.extractfile("include/in_0.h").read().decode()
    assert "in_0_len = 2" in text and "int8_t in_0[]" in text and "1, -2" in text


def test_users_names():
    alias.install()
    try:
        import tvm
        import tvm.micro

        assert tvm.micro.export_model_library_format is micro.export_model_library_format
        with pytest.raises(UnsupportedError, match="projects around programs for boards"):
            tvm.micro.generate_project("a", None, "b")
        with pytest.raises(UnsupportedError, match="no sessions with boards"):
            tvm.micro.Session()
        with pytest.raises(UnsupportedModuleError, match="no sessions with boards"):
            import tvm.micro.session
    finally:
        alias.uninstall()
