"""What modules become, as TVMScript."""

import numpy as np
import pytest

from tilesmith import relax, te, tir
from tilesmith.ir import assert_structural_equal
from tilesmith.relax.frontend import nn
from tilesmith.relax.frontend.nn import op, spec
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import DiagnosticError, TypeMismatchError


def test_a_layer_with_symbolic_sizes():
    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor(("n", 4), "float32"),
            weight: R.Tensor((3, 4), "float32"),
            bias: R.Tensor((3,), "float32"),
        ) -> R.Tensor(("n", 3), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                permuted = R.permute_dims(weight)
                product = R.matmul(x, permuted)
                total = R.add(product, bias)
                gv = total
                R.output(gv)
            return gv

    module, params = nn.Linear(4, 3).export_tvm(
        {"forward": {"x": spec.Tensor(["n", 4], "float32")}}
    )
    assert_structural_equal(module, Expected, map_free_vars=True)
    assert [name for name, _ in params] == ["weight", "bias"]


@pytest.mark.parametrize("debug", [False, True])
def test_states_order_output(debug):
    @I.ir_module
    class Expected:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object):
            with R.dataflow():
                io: R.Object = R.null_value()
                state = (io,)
                gv = state
                R.output(gv)
            return gv

        @R.function
        def forward(x: R.Tensor((2,), "float32"), io: R.Object) -> R.Tuple(
            R.Tensor((2,), "float32"), R.Tuple(R.Object)
        ):
            R.func_attr({"num_input": 2})
            with R.dataflow():
                relu = R.nn.relu(x)
                gv = (relu, (io,))
                R.output(gv)
            return gv

    @I.ir_module
    class Plain:
        @R.function
        def forward(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                relu = R.nn.relu(x)
                gv = relu
                R.output(gv)
            return gv

    inputs = {"forward": {"x": spec.Tensor([2], "float32")}}
    module, _ = nn.ReLU().export_tvm(inputs, debug=debug)
    assert_structural_equal(module, Expected if debug else Plain, map_free_vars=True)


class Cached(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(4, 4, bias=False)
        self.cache = nn.KVCache(2, [4])

    def forward(self, x: nn.Tensor, total: tir.Var):
        self.cache.append(self.fc(x))
        return self.cache.view(total)


def test_packed_parameters_and_states():
    @I.ir_module
    class Expected:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object):
            with R.dataflow():
                room = R.zeros(R.shape([2, 4]), "float32")
                cache: R.Object = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_create",
                    room,
                    R.shape([2, 4]),
                    R.prim_value(0),
                    sinfo_args=(R.Object,),
                )
                state = (cache,)
                gv = state
                R.output(gv)
            return gv

        @R.function
        def forward(
            x: R.Tensor(("n", 4), "float32"),
            given: R.Shape(["total"]),
            packed_effects: R.Tuple(R.Object),
            packed_params: R.Tuple(R.Tensor((4, 4), "float32")),
        ) -> R.Tuple(R.Tensor(("total", 4), "float32"), R.Tuple(R.Object)):
            R.func_attr({"num_input": 3})
            total = T.int64()
            with R.dataflow():
                cache = packed_effects[0]
                weight = packed_params[0]
                permuted = R.permute_dims(weight)
                product = R.matmul(x, permuted)
                grown: R.Object = R.call_inplace_packed(
                    "vm.builtin.attention_kv_cache_append",
                    cache,
                    product,
                    inplace_indices=[0],
                    sinfo_args=(R.Object,),
                )
                seen = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_view",
                    grown,
                    R.shape([total, 4]),
                    sinfo_args=(R.Tensor((total, 4), "float32"),),
                )
                gv = (seen, (grown,))
                R.output(gv)
            return gv

    modes = {"param_mode": "packed", "effect_mode": "packed"}
    inputs = {"x": spec.Tensor(["n", 4], "float32"), "total": int, "$": modes}
    module, _ = Cached().export_tvm({"forward": inputs})
    assert_structural_equal(module, Expected, map_free_vars=True)


def test_modes_that_leave_out_what_is_used_are_refused():
    inputs = {"x": spec.Tensor(["n", 4], "float32"), "total": int}
    with pytest.raises(DiagnosticError, match="effect_mode"):
        Cached().export_tvm({"forward": {**inputs, "$": {"effect_mode": "none"}}})
    with pytest.raises(DiagnosticError, match="weight"):
        nn.Linear(4, 4).export_tvm({"forward": {"x": inputs["x"], "$": {"param_mode": "none"}}})


def test_sizes_of_parameters_are_those_of_inputs_with_their_names():
    class Table(nn.Module):
        def __init__(self):
            self.embedding = nn.Embedding("vocabulary", 4)
            self.head = nn.Linear(4, "vocabulary", bias=False)

        def forward(self, x: nn.Tensor):
            return self.head(self.embedding(x))

    module, _ = Table().export_tvm({"forward": {"x": spec.Tensor([1, "n"], "int32")}})
    function = module["forward"]
    table, head = [param.struct_info.shape.values for param in function.params[1:]]
    assert table[0].same_as(head[0])
    assert function.ret_struct_info.shape.values[2].same_as(table[0])


def test_tuples_of_inputs_and_results():
    class Pair(nn.Module):
        def forward(self, pair, more):
            first, (second, number) = pair
            return [first + second, more[0]], number

    one = spec.Tensor([2], "float32")
    module, _ = Pair().export_tvm({"forward": {"pair": (one, [one, int]), "more": [one]}})
    x = np.ones(2, "float32")
    (total, same), number = relax.interpreter.run(module, "forward", (x, (2 * x, (7,))), (x,))
    assert total.tolist() == [3, 3] and same.tolist() == [1, 1] and number == 7


def test_a_result_that_is_no_value_is_refused():
    class Strange(nn.Module):
        def forward(self, x):
            return "x"

    with pytest.raises(TypeMismatchError, match="'forward' returned str"):
        Strange().export_tvm({"forward": {"x": spec.Tensor([2], "float32")}})


@T.prim_func
def add_number(var_x: T.handle, var_y: T.handle, number: T.int64):
    n = T.int64()
    x = T.match_buffer(var_x, (n,), "float32")
    y = T.match_buffer(var_y, (n,), "float32")
    for i in range(n):
        with T.block("add"):
            v = T.axis.spatial(n, i)
            y[v] = x[v] + T.Cast("float32", number)


@T.prim_func
def add_in_place(var_x: T.handle, number: T.int64):
    n = T.int64()
    x = T.match_buffer(var_x, (n,), "float32")
    for i in range(n):
        with T.block("add"):
            v = T.axis.spatial(n, i)
            x[v] = x[v] + T.Cast("float32", number)


def test_kernels_of_the_user():
    class Kernels(nn.Module):
        def forward(self, x: nn.Tensor):
            out = nn.Tensor.placeholder(x.shape, "float32")
            y = op.tensor_ir_op(add_number, "add_number", [x, 3], out)
            z = op.tensor_ir_inplace_op(add_in_place, "add_in_place", [x * 2, 4], 0, out)
            w = op.tensor_expr_op(
                lambda a, k: te.compute(a.shape, lambda i: a[i] * k),
                "times",
                [x, 5],
                attrs={"op_pattern": 0},
            )
            return y, z, w

    module, _ = Kernels().export_tvm({"forward": {"x": spec.Tensor(["n"], "float32")}})
    assert {"add_number", "add_in_place", "times"} <= {v.name_hint for v in module.functions}
    assert int(module["times"].attrs["op_pattern"]) == 0
    x = np.arange(4, dtype="float32")
    for run in (
        lambda: relax.interpreter.run(module, "forward", x),
        lambda: [each.numpy() for each in relax.build(module)["forward"](x)],
    ):
        y, z, w = run()
        assert (y == x + 3).all() and (z == 2 * x + 4).all() and (w == 5 * x).all()


def test_one_subroutine_for_layers_that_are_alike():
    class Inner(nn.Module):
        define_subroutine = True

        def __init__(self, size):
            self.fc = nn.Linear(size, size, bias=False)

        def forward(self, x: nn.Tensor, factor: float = 1.0):
            return op.relu(self.fc(x)) * factor

    class Outer(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList([Inner(4), Inner(4)])

        def forward(self, x: nn.Tensor):
            for layer in self.layers:
                x = layer(x)
            return self.layers[0](x, factor=2.0)

    module, params = Outer().export_tvm({"forward": {"x": spec.Tensor([3, 4], "float32")}})
    assert sorted([v.name_hint for v in module.functions]) == ["forward", "inner", "inner1"]
    calls = [b.value for b in module["forward"].body.blocks[0].bindings if hasattr(b.value, "op")]
    assert [call.op.name_hint for call in calls] == ["inner", "inner", "inner1"]
    assert len(params) == 2 and len(module["inner"].params) == 2
    arrays = [
        np.random.default_rng(i).standard_normal((n, 4)).astype("float32")
        for i, n in enumerate((3, 4, 4))
    ]
    x, first, second = arrays
    expected = x
    for weight, factor in ((first, 1), (second, 1), (first, 2)):
        expected = np.maximum(expected @ weight.T, 0) * factor
    found = relax.interpreter.run(module, "forward", *arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    found = relax.build(module)["forward"](*arrays).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
