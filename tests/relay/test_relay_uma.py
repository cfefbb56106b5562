"""UMA: a toy accelerator, from its patterns to its code."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relay, te, tir
from tilesmith.contrib import graph_executor
from tilesmith.ir import IRModule
from tilesmith.relay.backend.contrib.uma import PassPhase, UMABackend, uma_available, uma_cli
from tilesmith.relay.dataflow_pattern import is_constant, is_op, wildcard
from tilesmith.relay.op.op_strategy import OpStrategy
from tilesmith.runtime import load_module
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError
from tilesmith.target import Target

UNIT = """
#include <stdint.h>
/* The "accelerator": a product of matrices, the second one transposed. */
static int32_t toy_dense(float* data, float* weight, float* out, int32_t m, int32_t n, int32_t k) {
  for (int32_t i = 0; i < m; ++i)
    for (int32_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int32_t l = 0; l < k; ++l) sum += data[i * k + l] * weight[j * k + l];
      out[i * n + j] = sum;
    }
  return 0;
}
"""

CHOSEN = []


def toy_strategy(attrs, inputs, out_type, target):
    """Computes a dense layer in one block, whose name the pass looks for."""

    def compute(attrs, inputs, out_type):
        CHOSEN.append(target.kind.name)
        data, weight = inputs
        k = te.reduce_axis((0, data.shape[1]), name="k")
        shape = (data.shape[0], weight.shape[0])
        return [
            te.compute(
                shape, lambda i, j: te.sum(data[i, k] * weight[j, k], axis=k), name="toy_dense"
            )
        ]

    strategy = OpStrategy()
    strategy.add_implementation(compute, None, name="toy_dense", plevel=20)
    return strategy


@tir.transform.prim_func_pass(opt_level=2)
def use_unit(func, mod, ctx):
    """Puts a call of the unit in place of the loops of its block."""
    data, weight = (func.buffer_map[one] for one in func.params[:2])
    schedule = tir.Schedule(func)
    out = schedule.get(schedule.get_block("toy_dense")).writes[0].buffer
    call = tir.call_extern("int32", "toy_dense", data.data, weight.data, out.data,
                           out.shape[0], out.shape[1], data.shape[1])  # fmt: skip
    return func.with_body(tir.Evaluate(call))


class Toy(UMABackend):
    """Takes dense layers with constant weights."""

    def __init__(self, name, fmt="c"):
        self.name = name
        super().__init__()
        self.seen = []
        dense = is_op("nn.dense")(wildcard(), is_constant())
        self._register_target_attr("units", 4)
        self._register_target_attr("mode")
        self._register_pattern("dense", dense, lambda call: call.checked_type.shape[1] % 7 == 0)
        for phase in list(PassPhase)[:3]:
            self._register_relay_pass(phase, self.noted(phase))
        if fmt == "c":
            self._register_operator_strategy("nn.dense", toy_strategy)
            self._register_tir_pass(PassPhase.TIR_PHASE_1, use_unit)
            self._register_codegen(fmt="c", includes=lambda: UNIT)
        else:
            self._register_codegen(fmt=fmt)

    @property
    def target_name(self):
        return self.name

    def noted(self, phase):
        def note(mod, ctx):
            self.seen.append((phase, len(mod.functions)))
            return mod

        return ts.transform.module_pass(note, opt_level=0)


RANDOM = np.random.default_rng(0)
PARAMS = {
    "first": RANDOM.standard_normal((7, 5)).astype("float32"),
    "second": RANDOM.standard_normal((3, 7)).astype("float32"),
}
X = RANDOM.standard_normal((4, 5)).astype("float32")


def model():
    x = relay.var("x", shape=(4, 5))
    first, second = (relay.var(name, shape=value.shape) for name, value in PARAMS.items())
    hidden = relay.nn.relu(relay.nn.dense(x, first))
    return IRModule.from_expr(relay.Function([x, first, second], relay.nn.dense(hidden, second)))


def check(lib):
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.set_input("x", X)
    module.run()
    wanted = np.maximum(X @ PARAMS["first"].T, 0) @ PARAMS["second"].T
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture
def made():
    """Makes backends that are known for one test only."""
    names = []

    def make(name, **options):
        names.append(name)
        return Toy(name, **options)

    yield make
    for name in names:
        ts.target.KINDS._values.pop(name, None)


def test_a_backend_end_to_end(made, tmp_path):
    CHOSEN.clear()
    backend = made("toy_a")
    backend.register()
    assert uma_available()
    mod = backend.partition(model(), PARAMS)
    assert list(mod.functions)[1].name_hint == "tvmgen_default_toy_a_main_0"
    assert len(mod.functions) == 2  # the second layer has 3 outputs: the predicate refuses it
    assert [count for _, count in backend.seen] == [1, 2, 2]
    assert [phase for phase, _ in backend.seen] == list(PassPhase)[:3]
    lib = relay.build(mod, Target("toy_a -units=8", host="llvm"))
    check(lib)
    assert CHOSEN == ["toy_a"]
    source = lib.get_lib().imported_modules[0].get_source()
    assert "toy_dense(" in source.split("tvmgen_default_toy_a_main_0", 1)[1]
    path = str(tmp_path / "model.so")
    lib.export_library(path)
    check(load_module(path))
    check(relay.build(mod, {"cpu": Target("llvm"), "toy": Target("toy_a")}))


def test_a_backend_without_passes_compiles_by_llvm(made):
    backend = made("toy_b", fmt="llvm")
    backend.register()
    check(relay.build(backend.partition(model(), PARAMS), ["llvm", "toy_b"]))


def test_a_strategy_is_only_for_its_backend(made):
    CHOSEN.clear()
    made("toy_c").register()
    check(relay.build(model(), "llvm", params=PARAMS))
    assert not CHOSEN


def test_options_of_the_target(made):
    made("toy_d").register()
    assert Target("toy_d").attrs["units"] == 4
    assert Target("toy_d -mode=fast").attrs["mode"] == "fast"


def test_what_a_backend_cannot_be_is_refused(made):
    backend = made("toy_e")
    backend.register()
    with pytest.raises(ConfigError, match="a kind of target 'toy_e' already"):
        backend.register()
    with pytest.raises(ConfigError, match="cannot run in the phase TIR_PHASE_0"):
        backend._register_relay_pass(PassPhase.TIR_PHASE_0, relay.transform.InferType())
    with pytest.raises(ConfigError, match="cannot run in the phase PRE_PARTITIONING"):
        backend._register_tir_pass(PassPhase.PRE_PARTITIONING, use_unit)
    with pytest.raises(UnsupportedError, match="not as 'verilog'"):
        backend._register_codegen("verilog")
    with pytest.raises(UnsupportedError, match="unknown options of the code: color"):
        backend._register_codegen("c", color="red")
    with pytest.raises(TypeMismatchError, match="a text, a whole number or a truth value"):
        backend._register_target_attr("size", 1.5)


def test_the_command_writes_a_backend_that_works(tmp_path, capsys):
    uma_cli.main(["--add-hardware", "my_unit", "--folder", str(tmp_path)])
    path = tmp_path / "my_unit_backend.py"
    assert str(path) in capsys.readouterr().out
    space: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    backend = space["MyUnitBackend"]()
    assert backend.target_name == "my_unit"
    assert len(backend.partition(model(), PARAMS).functions) == 3
    with pytest.raises(ConfigError, match="exists already"):
        uma_cli.main(["--add-hardware", "my_unit", "--folder", str(tmp_path)])
