"""Programs in C for boards: compiled with this machine's C compiler, run beside the interpreter."""

import subprocess

import numpy as np
import pytest

from tilesmith import relay
from tilesmith.codegen.c import find_compiler
from tilesmith.ir import (
    ConstantMemoryPools,
    ConstantPoolInfo,
    IRModule,
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
)
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
CRT = Runtime("crt")


def network(seed=0):
    """A convolution, a softmax and a dense layer: kernels with memory of their own."""
    random = np.random.default_rng(seed)
    x, w, d = relay.var("x", shape=(1, 3, 9, 9)), relay.var("w", shape=(8, 3, 3, 3)), relay.var("d")
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), kernel_size=(3, 3), channels=8))
    y = relay.nn.softmax(relay.nn.batch_flatten(y))
    d = relay.var("d", shape=(7, 648))
    function = relay.Function([x, w, d], relay.nn.dense(y, d))
    params = {"w": random.normal(size=(8, 3, 3, 3)), "d": random.normal(size=(7, 648))}
    return (
        IRModule.from_expr(function),
        {name: value.astype("float32") for name, value in params.items()},
        {"x": random.normal(size=(1, 3, 9, 9)).astype("float32")},
    )


def two_outputs(seed=0):
    """Integers, a result that is an input of the other one, names that C does not know."""
    random = np.random.default_rng(seed)
    x, y = (
        relay.var("in:1", shape=(5, 13), dtype="int32"),
        relay.var("int", shape=(13,), dtype="int8"),
    )
    total = relay.add(x, relay.cast(y, "int32"))
    rows = relay.sum(relay.multiply(total, relay.const(3)), axis=1)
    module = IRModule.from_expr(relay.Function([x, y], relay.Tuple([total, rows])))
    inputs = {
        "in:1": random.integers(-99, 99, (5, 13)).astype("int32"),
        "int": random.integers(-99, 99, (13,)).astype("int8"),
    }
    return module, {}, inputs


def large(seed=0):
    """Enough work that kernels of this process would be given to several threads."""
    random = np.random.default_rng(seed)
    x, w = relay.var("x", shape=(96, 160)), relay.var("w", shape=(144, 160))
    body = relay.exp(relay.tanh(relay.nn.dense(x, w)))
    params = {"w": random.normal(size=(144, 160)).astype("float32")}
    inputs = {"x": random.normal(size=(96, 160)).astype("float32")}
    return IRModule.from_expr(relay.Function([x, w], body)), params, inputs


MODELS = {one.__name__: one for one in (network, two_outputs, large)}


def built(model, interface="c", name="default", target="c", **options):
    module, params, _ = model
    executor = Executor("aot", {"interface-api": interface, "unpacked-api": interface == "c"})
    return relay.build(
        module, target, executor=executor, runtime=CRT, params=params, mod_name=name, **options
    )


def workspace_pools(**sizes):
    return WorkspaceMemoryPools(
        [
            WorkspacePoolInfo(name, ["c"], PoolInfoProperties(size_hint_bytes=size))
            for name, size in sizes.items()
        ]
    )


def constant_pools(**sizes):
    return ConstantMemoryPools(
        [
            ConstantPoolInfo(name, ["c"], [], PoolInfoProperties(size_hint_bytes=size))
            for name, size in sizes.items()
        ]
    )


MAIN_C = """
#include <stdio.h>
#include <stdlib.h>
#include "tvmgen_{name}.h"
{memory}
static void* space(size_t size) {{ return calloc(size + 1, 1); }}
int main(void) {{
{body}
  return status;
}}
"""


def caller(library, name):
    """Write a program that reads inputs, calls the model with its structures, writes outputs."""
    prefix, body = f"tvmgen_{name}", []
    groups = {"inputs": library.inputs, "outputs": library.outputs}
    pools = list(library.memory["pools"])
    for group, members in groups.items():
        values = ", ".join([f"space({one.nbytes})" for one in members])
        body.append(f"struct {prefix}_{group} {group} = {{{values}}};")
    for one in library.inputs:
        body.append(
            f"if (fread(inputs.{one.member}, 1, {one.nbytes}, stdin) != {one.nbytes}) return 99;"
        )
    memory = [
        f"static _Alignas(16) uint8_t {pool}_memory[{library.memory['pools'][pool]}];"
        for pool in pools
    ]
    arguments = "&inputs, &outputs"
    if pools:
        values = ", ".join([f"{pool}_memory" for pool in pools])
        body.append(f"struct {prefix}_workspace_pools pools = {{{values}}};")
        arguments += ", &pools"
    body.append(f"int32_t status = {prefix}_run({arguments});")
    for one in library.outputs:
        body.append(f"fwrite(outputs.{one.member}, 1, {one.nbytes}, stdout);")
    return MAIN_C.format(
        name=name, memory="\n".join(memory), body="\n".join(["  " + one for one in body])
    )


def compiled_run(files, folder, inputs, outputs):
    """Compile C files (without warnings), run the program once; return its outputs as arrays."""
    program = str(folder / "program")
    words = "-std=c11 -O1 -fwrapv -Wall -Wextra -Werror -Wno-unknown-pragmas".split()
    done = subprocess.run(
        [find_compiler(), *words, *files, "-o", program, "-lm"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    given = b"".join([np.ascontiguousarray(one).tobytes() for one in inputs])
    ran = subprocess.run([program], input=given, capture_output=True, check=True)
    found, start = [], 0
    for one in outputs:
        flat = np.frombuffer(ran.stdout[start : start + one.nbytes], one.dtype)
        found.append(flat.reshape(one.shape))
        start += one.nbytes
    assert start == len(ran.stdout)
    return found


def run_in_c(library, name, folder, inputs):
    files = library.save(folder)
    (folder / "main.c").write_text(caller(library, name))
    given = [inputs[one.name] for one in library.inputs]
    return compiled_run([*files, str(folder / "main.c")], folder, given, library.outputs)


def interpreted(model):
    module, params, inputs = model
    result = relay.create_executor("debug", mod=module, target="llvm").evaluate()(
        **inputs, **params
    )
    results = result if hasattr(result, "__len__") and not hasattr(result, "numpy") else [result]
    return [one.numpy() for one in results]


def check(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("name", list(MODELS))
def test_the_compiled_code_computes_what_the_interpreter_does(name, tmp_path):
    model = MODELS[name]()
    library = built(model, name=name).get_lib()
    check(run_in_c(library, name, tmp_path, model[2]), interpreted(model))


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
    check(run_in_c(split, "default", tmp_path, model[2]), interpreted(model))


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


PACKED_C = """
#include <stdio.h>
#include <stdlib.h>
#include "tvmgen_packed.h"
int main(void) {{
  static float x[{x}], output[{y}];
  static _Alignas(16) uint8_t sram[TVMGEN_PACKED_SRAM_WORKSPACE_POOL_SIZE];
  int64_t xs[] = {{1, 3, 9, 9}}, ys[] = {{1, 7}}, wrong[] = {{7, 1}};
  TsTensor a = {{x, {{1, 0}}, 4, {{2, 32, 1}}, xs, NULL, 0}};
  TsTensor b = {{output, {{1, 0}}, 2, {{2, 32, 1}}, wrong, NULL, 0}};
  TsAny args[3] = {{{{7, 0, {{0}}}}, {{7, 0, {{0}}}}, {{4, 0, {{0}}}}}};
  args[0].v.p = &a; args[1].v.p = &b; args[2].v.p = sram;
  if (fread(x, 1, sizeof x, stdin) != sizeof x) return 99;
  if (tvmgen_packed_run(NULL, args, 2, NULL) == 0) return 98;
  if (tvmgen_packed_run(NULL, args, 3, NULL) == 0) return 97;
  b.shape = ys;
  int status = tvmgen_packed_run(NULL, args, 3, NULL);
  fwrite(output, 1, sizeof output, stdout);
  return status;
}}
"""


@needs_compiler
def test_the_packed_interface_checks_its_arguments(tmp_path):
    model = network()
    pools = workspace_pools(sram=-1)
    library = built(model, "packed", "packed", workspace_memory_pools=pools).get_lib()
    (tmp_path / "main.c").write_text(PACKED_C.format(x=243, y=7))
    files = [*library.save(tmp_path), str(tmp_path / "main.c")]
    check(compiled_run(files, tmp_path, [model[2]["x"]], library.outputs), interpreted(model))


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
