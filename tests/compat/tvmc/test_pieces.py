"""tvmc reads its command line: targets, shapes, passes, options, settings, addresses."""

import argparse
import json
from pathlib import Path

import pytest

from tilesmith import relay
from tilesmith.compat.tvm.tvmc import config_options, frontends
from tilesmith.compat.tvm.tvmc.errors import TVMCException, TVMCImportError
from tilesmith.compat.tvm.tvmc.fmtopt import format_option
from tilesmith.compat.tvm.tvmc.pass_config import (
    get_pass_config_value,
    load_function,
    parse_configs,
)
from tilesmith.compat.tvm.tvmc.pass_list import parse_pass_list_str
from tilesmith.compat.tvm.tvmc.registry import generate_registry_args, reconstruct_registry_entity
from tilesmith.compat.tvm.tvmc.shape_parser import parse_shape_string
from tilesmith.compat.tvm.tvmc.target import (
    generate_target_args,
    parse_target,
    reconstruct_target_args,
    target_from_cli,
    tokenize_target,
)
from tilesmith.compat.tvm.tvmc.tracker import tracker_host_port_from_cli
from tilesmith.compat.tvm.tvmc.workspace_pools import (
    generate_workspace_pools_args,
    workspace_pools_recombobulate,
)
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.relay.frontend.keras import require_keras
from tilesmith.target import Target


@pytest.mark.parametrize(
    "text, shapes",
    [
        ("x:[1,3,224,224]", {"x": [1, 3, 224, 224]}),
        ("x:[1, 3] y:[2]", {"x": [1, 3], "y": [2]}),
        ("a/b:0:[4,5], 'in put':[ 6 ]", {"a/b:0": [4, 5], "in put": [6]}),
        ("s:[]", {"s": []}),
    ],
)
def test_shapes(text, shapes):
    assert parse_shape_string(text) == shapes


def test_an_unknown_size_is_any():
    first, second = parse_shape_string("x:[-1,3]")["x"]
    assert isinstance(first, relay.Any) and second == 3


@pytest.mark.parametrize("text", ["", "x", "x:1,3", "x:[1,a]", "x:[1,2", "x:[1] x:[2]", "x:[1,,2]"])
def test_wrong_shapes(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse_shape_string(text)


def test_passes():
    assert parse_pass_list_str("FuseOps, AlterOpLayout,tir.UnrollLoop") == [
        "FuseOps",
        "AlterOpLayout",
        "tir.UnrollLoop",
    ]
    assert parse_pass_list_str("") == []
    with pytest.raises(argparse.ArgumentTypeError, match="FuseOp .did you mean FuseOps"):
        parse_pass_list_str("FuseOp")


@pytest.mark.parametrize(
    "value, kind, expected",
    [
        ("true", "bool", True), ("0", "Boolean", False), ("0x10", "int", 16), ("7", "IntImm", 7),
        ("1.5", "float", 1.5), ("x=1", "str", "x=1"), ("[1, 2]", "list", [1, 2]),
        ('{"a": 1}', "dict", {"a": 1}), ("word", "object", "word"),
    ],
)  # fmt: skip
def test_values_of_options(value, kind, expected):
    assert get_pass_config_value("an.option", value, kind) == expected


@pytest.mark.parametrize(
    "value, kind", [("2", "bool"), ("x", "int"), ("x", "float"), ("{", "dict")]
)
def test_wrong_values_of_options(value, kind):
    with pytest.raises(TVMCException, match="an.option"):
        get_pass_config_value("an.option", value, kind)


def test_options_of_passes():
    found = parse_configs(["tir.disable_vectorize=true", "tir.add_lower_pass=3:json.dumps"])
    assert found == {"tir.disable_vectorize": True, "tir.add_lower_pass": [(3, json.dumps)]}
    assert parse_configs(None) == {}
    with pytest.raises(TVMCException, match="did you mean 'tir.disable_vectorize'"):
        parse_configs(["tir.disable_vectorise=true"])
    with pytest.raises(TVMCException, match="NAME=VALUE"):
        parse_configs(["tir.disable_vectorize"])
    for text in ("x:json.dumps", "json.dumps"):
        with pytest.raises(TVMCException, match="STEP"):
            parse_configs([f"tir.add_lower_pass={text}"])


@pytest.mark.parametrize("name", ["json.no_such", "no_such_module.f", "json", "json.decoder"])
def test_functions_that_are_not_there(name):
    with pytest.raises(TVMCException, match=name):
        load_function(name)


def test_words_of_targets():
    assert tokenize_target("llvm -mattr=+a,+b -mcpu=x, dnnl") == [
        "llvm", "-mattr=+a,+b", "-mcpu=x", ",", "dnnl",
    ]  # fmt: skip
    first, second = parse_target('llvm -model="a b" -fast-math, dnnl')
    assert first["opts"] == {"model": "a b", "fast-math": "1"} and first["is_tvm_target"]
    assert second["name"] == "dnnl" and not second["is_tvm_target"]


def parsed_target(*arguments):
    parser = argparse.ArgumentParser()
    generate_target_args(parser)
    args = parser.parse_args(arguments)
    return target_from_cli(args.target, reconstruct_target_args(args))


def test_options_of_targets_are_arguments():
    target, beside = parsed_target(
        "--target", "llvm, dnnl", "--target-llvm-mcpu=haswell", "--target-llvm-num-cores", "4",
        "--target-llvm-fast-math", "1", "--target-llvm-mattr=+avx2,+fma",
    )  # fmt: skip
    assert (target.kind.name, target.mcpu, target.num_cores) == ("llvm", "haswell", 4)
    assert target.attrs["fast-math"] is True and target.mattr == ("+avx2", "+fma")
    assert [one["name"] for one in beside] == ["dnnl"]


def test_targets_as_json_and_from_files(tmp_path):
    text = '{"kind": "llvm", "mcpu": "haswell"}'
    path = tmp_path / "target.json"
    path.write_text(text)
    for given in (text, str(path), Target(text), json.loads(text)):
        assert target_from_cli(given)[0].mcpu == "haswell"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no target"), ("lvm", "no target 'lvm'"), ("llvm, c", "one target"),
        ("dnnl", "one target"), ("llvm, ", "comma"), ("-mcpu=x llvm", "before any name"),
        ("llvm x", "neither an option nor a target"),
    ],
)  # fmt: skip
def test_wrong_targets(text, message):
    with pytest.raises(TVMCException, match=message):
        target_from_cli(text)


def test_options_of_targets_that_are_not_chosen():
    with pytest.raises(TVMCException, match="cuda"):
        parsed_target("--target", "llvm", "--target-cuda-arch", "sm_80")


def parsed_entity(registry, *arguments):
    parser = argparse.ArgumentParser()
    generate_registry_args(parser, registry, "graph" if registry is Executor else None)
    return reconstruct_registry_entity(parser.parse_args(arguments), registry)


def test_executors_and_runtimes():
    assert parsed_entity(Executor) == Executor("graph")
    found = parsed_entity(Executor, "--executor", "aot", "--executor-aot-unpacked-api", "1")
    assert found == Executor("aot", {"unpacked-api": True})
    assert parsed_entity(Runtime) is None
    with pytest.raises(TVMCException, match="no executor 'x'"):
        parsed_entity(Executor, "--executor", "x")
    with pytest.raises(TVMCException, match="'graph' is chosen"):
        parsed_entity(Executor, "--executor-aot-interface-api", "c")


def test_settings_from_a_file(tmp_path, monkeypatch):
    path = tmp_path / "board.json"
    settings = {
        "targets": [{"kind": "llvm", "mcpu": "haswell", "mattr": ["+a", "+b"]}],
        "executor": {"kind": "aot", "unpacked-api": 1},
        "opt-level": 2,
    }
    path.write_text(json.dumps(settings))
    found = config_options.read_and_convert_json_into_dict(argparse.Namespace(config=str(path)))
    merged = {}
    for entry in config_options.convert_config_json_to_cli(found):
        merged.update(entry)
    assert merged == {
        "target": "llvm", "target_llvm_mcpu": "haswell", "target_llvm_mattr": "+a +b",
        "executor": "aot", "executor_aot_unpacked_api": 1, "opt_level": 2,
    }  # fmt: skip
    assert config_options.find_json_file("board", tmp_path) == str(path)
    for name in ("none", "../board"):
        with pytest.raises(config_options.ConfigsJsonNotFoundError, match=name):
            config_options.find_json_file(name, tmp_path)
    path.write_text("{")
    with pytest.raises(TVMCException, match="JSON"):
        config_options.read_and_convert_json_into_dict(argparse.Namespace(config=str(path)))
    monkeypatch.setattr(config_options, "CONFIGS_JSON_DIR", tmp_path / "no")
    with pytest.raises(config_options.ConfigsJsonNotFoundError, match="no folder"):
        config_options.get_configs_json_dir()


def test_addresses_of_trackers():
    assert tracker_host_port_from_cli("host:9191") == ("host", 9191)
    assert tracker_host_port_from_cli("host") == ("host", 9090)
    assert tracker_host_port_from_cli(None) == (None, None)
    for text in (":9090", "host:x", "host:99999"):
        with pytest.raises(TVMCException, match="tracker"):
            tracker_host_port_from_cli(text)


def pools(*arguments):
    parser = argparse.ArgumentParser()
    generate_workspace_pools_args(parser)
    return workspace_pools_recombobulate(parser.parse_args(arguments), [Target("llvm")], [])


def test_workspace_pools():
    assert pools() is None
    found = pools(
        "--workspace-pools=sram,dram", "--workspace-pools-targets=sram:llvm",
        "--workspace-pools-size-hint-bytes=sram:4096,dram:65536",
        "--workspace-pools-target-burst-bytes=sram:llvm:8",
    )  # fmt: skip
    sram, dram = found.pools
    assert (sram.pool_name, sram.size_hint_bytes, dram.size_hint_bytes) == ("sram", 4096, 65536)
    assert dict(sram.pool_info_properties.target_burst_bytes) == {Target("llvm"): 8}
    for wrong in ("flash:1", "sram:x", "sram"):
        with pytest.raises(TVMCException, match="workspace pool"):
            pools("--workspace-pools=sram", f"--workspace-pools-size-hint-bytes={wrong}")
    with pytest.raises(TVMCException, match="'cuda'"):
        pools("--workspace-pools=sram", "--workspace-pools-targets=sram:cuda")


def test_formats_of_models(tmp_path):
    names = frontends.get_frontend_names()
    assert set(names) >= {"onnx", "pytorch", "relay", "keras", "tflite", "pb", "paddle"}
    assert frontends.guess_frontend("a/b.ONNX").name() == "onnx"
    assert frontends.guess_frontend("m.tflite").name() == "tflite"
    for wrong in ("model", "model.xyz"):
        with pytest.raises(TVMCException, match="--model-format"):
            frontends.guess_frontend(wrong)
    with pytest.raises(TVMCException, match="formats: keras"):
        frontends.get_frontend_by_name("xyz")
    with pytest.raises(TVMCImportError, match="no_such_package"):
        frontends.lazy_import("no_such_package.part")


def test_models_of_paddle_are_converted_first(tmp_path):
    path = tmp_path / "model.pdmodel"
    path.write_bytes(b"")
    with pytest.raises(TVMCException, match=r"(?i)convert it to onnx"):
        frontends.load_model(str(path))


@pytest.mark.parametrize("suffix", ["keras", "h5", "pb", "tflite"])
def test_a_file_that_is_no_model_is_named(tmp_path, suffix):
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(b"")
    with pytest.raises(TVMCException, match=rf"model\.{suffix}'"):
        frontends.load_model(str(path))


@pytest.mark.parametrize("name", ["network.pb", "network_int8.tflite"])
def test_models_of_tensorflow_are_read(name):
    folder = Path(__file__).parents[2] / "relay" / "frontend" / "models"
    model = frontends.load_model(str(folder / name))
    assert len(model.mod["main"].params) == 1 + len(model.params)


def test_models_of_keras_are_read(tmp_path):
    keras = require_keras()
    path = str(tmp_path / "model.keras")
    made = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(3)])
    made.save(path)
    model = frontends.load_model(path, shape_dict={"x": [2, 4]})
    assert list(model.mod["main"].ret_type.concrete_shape) == [2, 3]
    frontend = frontends.get_frontend_by_name("keras")
    functional = frontend.sequential_to_functional(made)
    assert not frontend.is_sequential_p(functional) and functional.output_shape == (None, 3)


def test_options_of_projects_are_laid_out():
    text = format_option("--verbose", "say more " * 9, "default: 0", required=False)
    first, *rest = text.splitlines()
    assert first.startswith("  --verbose ") and first.endswith("say more say")
    assert len(rest) >= 3 and rest[-1].endswith("(optional)")
