"""Programs in C for boards: compiled with this machine's C compiler, run beside the interpreter."""

import subprocess

import pytest

from tests.micro.board_programs import (
    CRT,
    MODELS,
    built,
    check,
    constant_pools,
    interpreted,
    needs_compiler,
    network,
    two_outputs,
    workspace_pools,
)
from tilesmith import relay
from tilesmith.codegen.c import find_compiler
from tilesmith.ir import IRModule, WorkspaceMemoryPools, WorkspacePoolInfo
from tilesmith.ir.pass_context import PassContext
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError
from tilesmith.testing.board_runs import run_here


@needs_compiler
@pytest.mark.parametrize("name", list(MODELS))
def test_the_compiled_code_computes_what_the_interpreter_does(name, tmp_path):
    model = MODELS[name]()
    library = built(model, name=name).get_lib()
    check(run_here(library, model[2], tmp_path)[0], interpreted(model))


@needs_compiler
def test_pools_hold_workspace_and_constants(tmp_path):
    model = network()
    whole = built(model).get_lib().memory
    assert whole["pools"] == {} and whole["workspaces"]["workspace"] > 0
    split = built(
        model,
        workspace_memory_pools=workspace_pools(sram=4000, dram=100_000),
        constant_memory_pools=constant_pools(tcm=1024, flash=-1),
    ).get_lib()
    assert set(split.memory["pools"]) == {"sram", "dram"} and not split.memory["workspaces"]
    assert 0 < split.memory["pools"]["sram"] <= 4000
    assert split.memory["constants"] == {"tcm": 864, "flash": 18144}
    assert "TVMGEN_DEFAULT_SRAM_WORKSPACE_POOL_SIZE" in split.get_source("tvmgen_default.h")
    check(run_here(split, model[2], tmp_path)[0], interpreted(model))


def test_pools_that_are_too_small_are_named():
    model = network()
    needed = built(model).get_lib().memory
    size = needed["workspaces"]["workspace"]
    exact = built(model, workspace_memory_pools=workspace_pools(sram=size)).get_lib()
    assert exact.memory["pools"] == {"sram": size}
    with pytest.raises(ConfigError, match=f"'sram' has {size - 1} bytes, the plan needs {size}"):
        built(model, workspace_memory_pools=workspace_pools(sram=size - 1))
    with pytest.raises(
        ConfigError, match=r"'flash' has 1000 bytes, with the constant .* need 1[89]\d+"
    ):
        built(model, constant_memory_pools=constant_pools(flash=1000))
    other = WorkspaceMemoryPools([WorkspacePoolInfo("far", ["llvm"])])
    with pytest.raises(ConfigError, match="none of the pools is for the target 'c'"):
        built(model, workspace_memory_pools=other)
    with pytest.raises(ConfigError, match="'m' is given for constants"):
        built(
            model,
            workspace_memory_pools=workspace_pools(m=9),
            constant_memory_pools=constant_pools(m=9),
        )
    with pytest.raises(TypeMismatchError, match="WorkspaceMemoryPools"):
        built(model, workspace_memory_pools=[1])


USMP = {"tir.usmp.enable": True, "tir.usmp.use_workspace_io": True}


@needs_compiler
@pytest.mark.parametrize("name", ["network", "two_outputs"])
@pytest.mark.parametrize("has_pool", [False, True])
def test_inputs_and_outputs_lie_in_the_workspace(name, has_pool, tmp_path):
    model = MODELS[name]()
    options = {"workspace_memory_pools": workspace_pools(sram=-1)} if has_pool else {}
    with PassContext(opt_level=3, config=USMP):
        library = built(model, name=name, **options).get_lib()
        with pytest.raises(ConfigError, match="memory of the caller"):
            built(model, "packed")
        with pytest.raises(UnsupportedError, match="has no effect here"):
            relay.build(model[0], "c", params=model[1])
    tensors = [*library.inputs, *library.outputs]
    (size,) = [*library.memory["pools"].values(), *library.memory["workspaces"].values()]
    assert size >= max(one.nbytes for one in tensors)
    assert set(library.memory["io"]) == {one.member for one in tensors}
    check(run_here(library, model[2], tmp_path)[0], interpreted(model))


PACKED_C = """
#include <stdio.h>
#include <stdlib.h>
#include "tvmgen_packed.h"
int main(void) {
  static float x[243], output[7];
  static _Alignas(16) uint8_t sram[TVMGEN_PACKED_SRAM_WORKSPACE_POOL_SIZE];
  int64_t xs[] = {1, 3, 9, 9}, ys[] = {1, 7}, wrong[] = {7, 1};
  TsTensor a = {x, {1, 0}, 4, {2, 32, 1}, xs, NULL, 0};
  TsTensor b = {output, {1, 0}, 2, {2, 32, 1}, wrong, NULL, 0};
  TsAny args[3] = {{7, 0, {0}}, {7, 0, {0}}, {4, 0, {0}}};
  args[0].v.p = &a; args[1].v.p = &b; args[2].v.p = sram;
  FILE* file = fopen("inputs.bin", "rb");
  if (fread(x, 1, sizeof x, file) != sizeof x) return 99;
  fclose(file);
  if (tvmgen_packed_run(NULL, args, 2, NULL) == 0) return 98;
  if (tvmgen_packed_run(NULL, args, 3, NULL) == 0) return 97;
  b.shape = ys;
  int status = tvmgen_packed_run(NULL, args, 3, NULL);
  file = fopen("outputs.bin", "wb");
  fwrite(output, 1, sizeof output, file);
  fclose(file);
  return status;
}
"""


@needs_compiler
def test_the_packed_interface_checks_its_arguments(tmp_path):
    model = network()
    pools = workspace_pools(sram=-1)
    library = built(model, "packed", "packed", workspace_memory_pools=pools).get_lib()
    found, _ = run_here(library, model[2], tmp_path, PACKED_C)
    check(found, interpreted(model))


@needs_compiler
def test_two_models_are_linked_together(tmp_path):
    """All names begin with the model's, and nothing else of Tilesmith is needed."""
    models = {"first": network(1), "second": two_outputs(2)}
    objects = []
    for name, model in models.items():
        for file in built(model, name=name).get_lib().save(tmp_path):
            subprocess.run([find_compiler(), "-std=c99", "-c", file, "-o", file + ".o"], check=True)
            objects.append(file + ".o")
    relocatable = str(tmp_path / "both.o")
    subprocess.run([find_compiler(), "-r", "-nostdlib", *objects, "-o", relocatable], check=True)
    listed = subprocess.run(["nm", "-u", relocatable], capture_output=True, text=True, check=True)
    needed = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert needed <= {
        "expf",
        "memcpy",
        "memset",
        "tanhf",
        "_GLOBAL_OFFSET_TABLE_",
        "__stack_chk_fail",
    }


def test_what_no_board_runs_is_refused():
    model = network()
    module, params, _ = model
    x = relay.var("x", shape=(relay.Any(), 4))
    open_size = IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    aot, pools, system = Executor("aot"), workspace_pools(a=1), Runtime("crt", {"system-lib": True})
    cases = [
        (lambda: relay.build(module, "c", runtime=CRT, params=params), "graph executor"),
        (lambda: relay.build(module, "llvm", executor=aot, runtime=CRT), "written in C"),
        (lambda: relay.build(open_size, "c", executor=aot, runtime=CRT), "every size|constant sh"),
        (lambda: relay.build(module, "c", executor=aot, workspace_memory_pools=pools), "Runtime"),
        (lambda: relay.build(module, "c", executor=aot, runtime=system), "system-lib"),
        (lambda: built(model)["default"], "does not run in this process"),
        (lambda: built(model).get_lib()["main"], "does not run in this process"),
        (lambda: built(model).export_library("x.so"), "C source"),
    ]  # fmt: skip
    for call, words in cases:
        with pytest.raises(UnsupportedError, match=words):
            made = call()
            made(None)
    with pytest.raises(ConfigError, match="interface-api 'rust'"):
        built(model, "rust")


def test_names_that_clash_in_c_are_refused():
    x, y = relay.var("a:b", shape=(2,)), relay.var("a/b", shape=(2,))
    module = IRModule.from_expr(relay.Function([x, y], relay.add(x, y)))
    with pytest.raises(ConfigError, match="'a_b' in C"):
        built((module, {}, {}))
