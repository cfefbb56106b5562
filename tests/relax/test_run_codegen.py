"""RunCodegen: functions for external code generators, and groups that are one function."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.codegen.c.source_module import PACKED_INTERFACE, packed_wrapper
from tilesmith.contrib.cplusplus import compile_cplusplus
from tilesmith.relax.dpl import is_op, wildcard
from tilesmith.runtime import load_static_library, module_from_functions
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

TWO = np.full((3, 4), 2.0, "float32")


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")) -> R.Tensor(
        (3, 4), "float32"
    ):
        with R.dataflow():
            a = R.add(x, y)
            b = R.nn.relu(a)
            c = R.add(a, R.const(TWO))
            d = R.multiply(b, c)
            R.output(d)
        return d


PATTERN = ("run_test.add", is_op("relax.add")(wildcard(), wildcard()))


def prepared():
    return relax.transform.MergeCompositeFunctions()(
        relax.transform.FuseOpsByPattern([PATTERN])(Model)
    )


def run(mod, x, y):
    return relax.build(mod, "llvm")(x, y).numpy()


X, Y = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
WANTED = np.maximum(X + Y, 0) * (X + Y + TWO)


def test_merged_functions_come_before_what_reads_them():
    """The sum is read by a call between the two members of the group."""
    mod = prepared()
    (group,) = [one for one in mod.functions.values() if "Codegen" in one.attrs]
    assert len(group.ret_struct_info.fields) == 2
    assert relax.analysis.well_formed(mod)


@pytest.fixture
def register():
    name = "relax.ext.run_test"
    yield lambda generate: ts.register_func(name, generate, override=True)
    ts.runtime.registry.remove_global_func(name)


def test_the_modules_are_linked_and_called(register):
    seen = []

    def generate(functions, options, names):
        seen.append((options, list(names.values())))

        def compute(x, y, *outputs):
            total = x.numpy() + y.numpy()
            for out, value in zip(outputs, (total, total + TWO), strict=True):
                out.copyfrom(value)

        return [
            module_from_functions({str(one.attrs["global_symbol"]): compute}) for one in functions
        ]

    register(generate)
    mod = relax.transform.RunCodegen({"run_test": {"level": 1}})(prepared())
    assert not any("Codegen" in one.attrs for one in mod.functions.values())
    assert len(mod.attrs["external_mods"]) == 1
    assert seen == [({"level": 1}, [next(iter(mod.attrs["const_name_to_constant"]))])]
    np.testing.assert_allclose(run(mod, X, Y), WANTED, rtol=1e-5)


def test_only_what_entry_functions_call_is_compiled(register):
    register(lambda *given: pytest.fail("nothing is called"))
    extended = prepared()
    extended["other"] = relax.Function([], relax.const(1.0), attrs={"global_symbol": "other"})
    mod = relax.transform.RunCodegen(entry_functions=["other"])(extended)
    assert any("Codegen" in one.attrs for one in mod.functions.values())


def test_what_is_no_code_generator_is_refused(register):
    with pytest.raises(UnknownNameError, match="no code generator for functions of 'run_test'"):
        relax.transform.RunCodegen()(prepared())
    register(lambda *given: [3])
    with pytest.raises(TypeMismatchError, match="gave int, not a module"):
        relax.transform.RunCodegen()(prepared())


@I.ir_module
class Calls:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        with R.dataflow():
            a = R.call_dps_packed("twice", (x,), out_sinfo=R.Tensor((3, 4), "float32"))
            b = R.nn.relu(a)
            R.output(b)
        return b


@pytest.mark.parametrize("factor", [2, 3])
def test_modules_that_a_program_brings_along(factor):
    """Two models may have functions of one name."""
    module = module_from_functions({"twice": lambda x, out: out.copyfrom(x.numpy() * factor)})
    built = [
        relax.build(relax.transform.AttachExternModules([one])(Calls), "llvm")
        for one in (module, module_from_functions({"twice": lambda x, out: out.copyfrom(x)}))
    ]
    np.testing.assert_allclose(built[0](X).numpy(), np.maximum(X * factor, 0), rtol=1e-6)
    np.testing.assert_allclose(built[1](X).numpy(), np.maximum(X, 0), rtol=1e-6)


def test_a_function_keeps_the_modules_that_it_calls():
    module = module_from_functions({"twice": lambda x, out: out.copyfrom(x.numpy() * 2)})
    main = relax.build(relax.transform.AttachExternModules([module])(Calls), "llvm")["main"]
    del module
    gc.collect()
    np.testing.assert_allclose(main(X).numpy(), np.maximum(X * 2, 0), rtol=1e-6)


# C++, whose variables end with the program

CPLUSPLUS = f"""#include <stdint.h>
#include <cstdio>
#include <string>
#include <vector>
{PACKED_INTERFACE}
struct Log {{
  std::vector<std::string> names;
  ~Log() {{ std::printf("%d calls end well\\n", (int)names.size()); std::fflush(stdout); }}
}};
static Log log_of_calls;
static int twice_(float* x, float* out) {{
  log_of_calls.names.push_back("twice");
  for (int i = 0; i < 12; ++i) out[i] = x[i] * 2;
  return 0;
}}
{packed_wrapper("twice", "twice_", ["float", "float"])}"""

LOAD = """
import sys, numpy as np, tilesmith as ts
model = ts.runtime.load_module(sys.argv[1])
print(model(ts.nd.array(np.ones((3, 4), "float32"))).numpy().sum())
"""


@pytest.mark.parametrize("kind", ["source", "object"])
@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")),
    reason="this machine has no compiler for C++",
)
def test_cplusplus_with_variables_that_end_with_the_program(kind, tmp_path):
    """The destructor runs when the process ends, in which the model was loaded."""
    if kind == "source":
        module = ts.get_global_func("runtime.CSourceModuleCreate")(CPLUSPLUS, "cc", ["twice"], [])
    else:
        path = tmp_path / "twice.o"
        path.write_bytes(compile_cplusplus(CPLUSPLUS))
        module = load_static_library(str(path), ["twice"])
    mod = relax.transform.AttachExternModules([module])(Calls)
    path = str(tmp_path / "model.tsm")
    relax.build(mod, "llvm").export_library(path)
    done = subprocess.run([sys.executable, "-c", LOAD, path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "24.0\n1 calls end well\n"), done.stderr
