"""What surrounds the converters: inputs, weights, results, converters of one's own, errors."""

import numpy as np
import pytest
import torch
from torch import fx, nn
from torch.export import Dim

import tilesmith
from tilesmith import relax, tir
from tilesmith.relax.frontend import detach_params
from tilesmith.relax.frontend.torch import (
    dynamo_capture_subgraphs,
    from_exported_program,
    from_fx,
    relax_dynamo,
    supported_operators,
)
from tilesmith.relax.frontend.torch.dynamo import device_from_inputs, llvm_target
from tilesmith.relax.frontend.torch.exported_program_translator import ExportedProgramImporter
from tilesmith.relax.frontend.torch.fx_translator import TorchFXImporter
from tilesmith.relax.interpreter import run
from tilesmith.support.errors import (
    FrontendError,
    MissingDependencyError,
    OpAttributeUnImplemented,
    OpNotImplemented,
    UnsupportedError,
)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def mlp():
    torch.manual_seed(0)
    return Mlp().eval()


def agree(found, wanted):
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def imported(function, *inputs, **options):
    return from_exported_program(
        torch.export.export(Function(function), inputs, strict=False, **options)
    )


# Weights and results


def test_weights_are_constants_or_parameters(mlp):
    x = torch.randn(2, 4)
    program = torch.export.export(mlp, (x,))
    module = from_exported_program(program, keep_params_as_input=True)
    module, params = detach_params(module)
    names = [param.name_hint for param in module["main"].params]
    assert names == [
        "x", "p_first_weight", "p_first_bias", "p_second_weight", "p_second_bias",
    ]  # fmt: skip
    arrays = [value.numpy() for value in params["main"]]
    agree(run(module, "main", x.numpy(), *arrays)[0], mlp(x))
    assert len(from_exported_program(program)["main"].params) == 1
    traced = from_fx(fx.symbolic_trace(mlp), [((2, 4), "float32")], keep_params_as_input=True)
    assert len(traced["main"].params) == 5
    assert len(traced["main"].attrs["params"]) == 4


def test_weights_that_are_tied_are_one_constant():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(5, 3)

        def forward(self, tokens):
            return self.words(tokens) @ self.words.weight.T

    module = from_exported_program(torch.export.export(Tied(), (torch.tensor([1, 2]),)))
    text = module.script(show_meta=True)
    assert len({word for word in text.split() if "Constant][1]" in word}) == 0


@pytest.mark.parametrize(
    "unwrap, plain, wanted",
    [
        (False, False, "bound tuple"),
        (True, False, "tensor"),
        (False, True, "tuple"),
    ],
)
def test_how_a_single_result_is_returned(mlp, unwrap, plain, wanted):
    program = torch.export.export(mlp, (torch.randn(2, 4),))
    module = from_exported_program(
        program, unwrap_unit_return_tuple=unwrap, no_bind_return_tuple=plain
    )
    body = module["main"].body.body
    kinds = {
        "bound tuple": (relax.Var, relax.TupleStructInfo),
        "tensor": (relax.Var, relax.TensorStructInfo),
        "tuple": (relax.Tuple, relax.TupleStructInfo),
    }
    assert isinstance(body, kinds[wanted][0])
    assert isinstance(body.struct_info, kinds[wanted][1])


def test_a_traced_graph_returns_what_it_returned(mlp):
    info = [((2, 4), "float32")]
    single = from_fx(fx.symbolic_trace(mlp), info)
    assert isinstance(single["main"].ret_struct_info, relax.TensorStructInfo)
    nested = fx.symbolic_trace(lambda x: (x + 1, (x, [x * 2])))
    fields = from_fx(nested, info)["main"].ret_struct_info.fields
    assert len(fields) == 2 and len(fields[1].fields) == 2
    unit = fx.symbolic_trace(lambda x: (x + 1,))
    assert isinstance(from_fx(unit, info)["main"].ret_struct_info, relax.TupleStructInfo)
    unwrapped = from_fx(unit, info, unwrap_unit_return_tuple=True)
    assert isinstance(unwrapped["main"].ret_struct_info, relax.TensorStructInfo)


# Sizes


def test_a_traced_graph_with_symbolic_sizes(mlp):
    for size in ("n", tir.Var("n", "int64")):
        module = from_fx(fx.symbolic_trace(mlp), [((size, 4), "float32")])
        assert 'R.Tensor(("n", 4)' in module.script()
        for batch in (1, 5):
            x = torch.randn(batch, 4)
            agree(run(module, "main", x.numpy()), mlp(x))


def test_sizes_computed_from_sizes():
    n = Dim("n", min=3, max=64)

    def function(x):
        y = torch.cat([x[: x.shape[0] - 1], x[-1:], x.repeat(2, 1)])
        scaled = y * x.shape[0] + torch.arange(x.shape[1] * 2, dtype=torch.float32)[::2]
        return scaled / x.numel() ** 0.5, x.reshape(-1)

    module = imported(function, torch.randn(6, 3), dynamic_shapes=(({0: n},),))
    for rows in (4, 7):
        x = torch.randn(rows, 3)
        for found, wanted in zip(run(module, "main", x.numpy()), function(x)):
            agree(found, wanted)


def test_a_size_that_is_a_multiple():
    n = Dim("n", min=2, max=20)
    module = imported(
        lambda x: x.reshape(-1, 2).sum(1), torch.randn(12), dynamic_shapes=(({0: 2 * n},),)
    )
    x = torch.randn(8)
    agree(run(module, "main", x.numpy())[0], x.reshape(-1, 2).sum(1))


@pytest.mark.parametrize(
    "options",
    [
        {"scale_factor": 1.7, "mode": "bilinear"},
        {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
        {"size": (9, 5), "mode": "bilinear"},
        {"scale_factor": 2, "mode": "bicubic"},
        {"size": (1, 13), "mode": "bicubic", "align_corners": True},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
def test_images_of_any_size_are_resized(options):
    """Found by the fuzzer."""

    def function(x):
        return nn.functional.interpolate(x, **options)

    sizes = {2: Dim("height", min=2, max=64), 3: Dim("width", min=2, max=64)}
    module = imported(function, torch.randn(1, 2, 5, 7), dynamic_shapes=((sizes,),))
    for height, width in ((4, 6), (2, 9)):
        x = torch.randn(1, 2, height, width)
        agree(run(module, "main", x.numpy())[0], function(x))


def test_sizes_that_depend_on_data():
    def function(x):
        places = torch.nonzero(x > 0)
        return places, x[x > 0] * 2

    module = imported(function, torch.randn(3, 4))
    x = torch.tensor([[1.0, -1, 2, -2], [-1, -1, -1, -1], [0, 3, 0, 4]])
    found = run(module, "main", x.numpy())
    for array, tensor in zip(found, function(x)):
        agree(array, tensor)


def test_a_number_in_a_tensor_becomes_a_size():
    def function(x, count):
        number = count.item()
        torch._check(number >= 1)
        torch._check(number <= 4)
        return x[:number] + number

    module = imported(function, torch.randn(4, 2), torch.tensor(3))
    x = torch.randn(4, 2)
    agree(run(module, "main", x.numpy(), np.array(2))[0], function(x, torch.tensor(2)))


# Control flow and state


def test_branches_and_loops():
    def function(x, count):
        x = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 3, (x,))
        _, x = torch.while_loop(
            lambda i, x: i < count, lambda i, x: (i + 1, x * 2 + count), (torch.tensor(0), x)
        )
        return x

    module = imported(function, torch.randn(2, 3), torch.tensor(3))
    machine = relax.VirtualMachine(relax.build(module, "llvm"), tilesmith.cpu())
    for x, count in ((torch.ones(2, 3), 4), (-torch.ones(2, 3), 0)):
        wanted = function(x, torch.tensor(count))
        agree(run(module, "main", x.numpy(), np.array(count))[0], wanted)
        arrays = [tilesmith.nd.array(value) for value in (x.numpy(), np.array(count))]
        agree(machine["main"](*arrays)[0].numpy(), wanted)


def test_what_a_model_writes_to_is_returned_after_its_results():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total.add_(x.sum(0))
            x.mul_(2)
            return self.total + 1

    module = from_exported_program(torch.export.export(Counter(), (torch.ones(2, 3),)))
    function = module["main"]
    assert [param.name_hint for param in function.params] == ["x", "b_total"]
    assert list(function.attrs["mutated"]) == ["total", "x"]
    x = np.ones((2, 3), "float32")
    result, total, doubled = run(module, "main", x, np.full(3, 5, "float32"))
    assert result.tolist() == [8, 8, 8] and total.tolist() == [7, 7, 7]
    assert doubled.tolist() == (2 * x).tolist()


# Operators that torch's own samples leave out


@pytest.mark.parametrize(
    "function, shape",
    [
        (
            lambda x: nn.functional.fold(x, (5, 6), (2, 3), padding=(1, 0), stride=(2, 1)),
            (1, 12, 12),
        ),
        (lambda x: nn.functional.unfold(x, (2, 3), padding=1, dilation=(1, 2)), (2, 3, 5, 6)),
        (lambda x: nn.functional.pixel_shuffle(x, 2), (1, 8, 2, 3)),
        (lambda x: nn.functional.pad(x, (2, 1), mode="circular"), (2, 3, 4)),
        (lambda x: torch.roll(x, (1, -2), (0, 1)), (3, 4)),
        (lambda x: nn.functional.interpolate(x, size=(5, 3), mode="bicubic"), (1, 2, 3, 4)),
        (lambda x: nn.functional.interpolate(x, scale_factor=1.5, mode="nearest"), (1, 2, 4, 4)),
        (lambda x: nn.functional.adaptive_max_pool2d(x, (2, 3)), (1, 2, 5, 7)),
        (lambda x: torch.einsum("bij,bjk->bik", x, x.transpose(1, 2)), (2, 3, 4)),
        (lambda x: torch.index_add(x, 0, torch.tensor([0, 2, 0]), x), (3, 4)),
        (lambda x: torch.logsumexp(x, 1) + torch.std(x, 1), (3, 4)),
        (lambda x: x.unfold(1, 3, 2), (2, 8)),
        (lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.0, 0.5])), (3, 4)),
        (lambda x: torch.kthvalue(x, 2, 1)[0], (3, 4)),
        (lambda x: torch.linalg.vector_norm(x, 2, (0, -1), True), (2, 3, 4)),
        (lambda x: torch.norm(x, dim=1) + torch.linalg.vector_norm(x, 3, 1), (3, 4)),
        (lambda x: torch.linalg.vector_norm(x, float("-inf")), (3, 4)),
        (lambda x: torch.linalg.vector_norm(x, 0) + x.norm(1), ()),
    ],
)
def test_an_operator_agrees_with_torch(function, shape):
    x = torch.randn(shape)
    agree(run(imported(function, x), "main", x.numpy())[0], function(x))


# Converters of one's own


def test_converters_for_a_traced_graph(mlp):
    seen = []

    def linear(node, importer):
        layer = importer.named_modules[node.target]
        seen.append(node.target)
        weight, bias = [relax.const(t.detach().numpy()) for t in (layer.weight, layer.bias)]
        given = importer.env[node.args[0]]
        return importer.block_builder.emit(relax.op.linear(given, weight, bias))

    def relu(node, importer):
        (x,) = importer.retrieve_args(node)
        assert importer.shape_of(x)[1] == 6
        return importer.block_builder.emit(relax.op.nn.silu(x))

    module = from_fx(
        fx.symbolic_trace(mlp),
        [(("n", 4), "float32")],
        custom_convert_map={nn.Linear: linear, "relu": relu},
    )
    assert seen == ["first", "second"]
    x = torch.randn(3, 4)
    wanted = mlp.second(nn.functional.silu(mlp.first(x)))
    agree(run(module, "main", x.numpy()), wanted)


def test_importers_are_extended_by_inheritance(mlp):
    class Fx(TorchFXImporter):
        def create_convert_map(self):
            return {**super().create_convert_map(), "relu": self.relu}

        def relu(self, node):
            return self.block_builder.emit(relax.op.negative(self.env[node.args[0]]))

    class Exported(ExportedProgramImporter):
        def create_convert_map(self):
            return {**super().create_convert_map(), "relu.default": self.relu}

        relu = Fx.relu

    x = torch.randn(2, 4)
    wanted = mlp.second(-mlp.first(x))
    traced = Fx().from_fx(fx.symbolic_trace(mlp), [((2, 4), "float32")], False, False, False)
    agree(run(traced, "main", x.numpy()), wanted)
    program = torch.export.export(mlp, (x,))
    module = Exported().from_exported_program(program, False, False, False)
    agree(run(module, "main", x.numpy())[0], wanted)


# Errors


def test_all_unsupported_operators_are_told_at_once():
    def function(x):
        return torch.special.bessel_j0(x) + torch.special.bessel_j0(x * 2) + torch.special.i1(x)

    with pytest.raises(OpNotImplemented) as error:
        imported(function, torch.randn(3))
    text = str(error.value)
    assert "special_bessel_j0" in text and "special_i1" in text
    assert text.count("special_bessel_j0_1") == 1 and "create_convert_map" in text


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda: from_fx(Mlp(), []), FrontendError, "symbolic_trace"),
        (lambda: from_exported_program(Mlp()), FrontendError, "torch.export.export"),
        (
            lambda: from_fx(fx.symbolic_trace(Mlp()), [((2, 5), "float32")]),
            FrontendError,
            "input_info",
        ),
        (
            lambda: from_fx(fx.symbolic_trace(Mlp()), [((2, 4), "float99")]),
            FrontendError,
            "no dtype 'float99'",
        ),
        (
            lambda: from_fx(fx.symbolic_trace(Mlp()), [((2, 4), "float32")] * 2),
            FrontendError,
            "the graph has 1 inputs",
        ),
        (
            lambda: imported(lambda x: torch.view_as_complex(x), torch.randn(3, 2)),
            OpNotImplemented,
            "view_as_complex",
        ),
        (
            lambda: imported(lambda x: x * 2, torch.randn(2, dtype=torch.complex64)),
            UnsupportedError,
            "complex64",
        ),
        (
            lambda: imported(lambda x: nn.functional.dropout(x, 0.5, True), torch.randn(3)),
            OpAttributeUnImplemented,
            "model.eval()",
        ),
        (lambda: dynamo_capture_subgraphs(lambda: 3), FrontendError, "nothing was captured"),
    ],
)
def test_errors_say_what_to_do(call, kind, text):
    with pytest.raises(kind) as error:
        call()
    assert text in str(error.value)


def test_without_torch(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        from_exported_program(None)


def test_the_table_of_converters():
    names = supported_operators()
    assert len(names) > 200 and list(names) == sorted(names)


# torch.compile


def test_compiled_models_train(mlp):
    torch.manual_seed(1)
    models = [nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU()) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    compiled = torch.compile(models[0], backend="tilesmith")
    x = torch.randn(6, 4)
    for function in (compiled, models[1]):
        function(x).square().sum().backward()
    torch.testing.assert_close(models[0][0].weight.grad, models[1][0].weight.grad)
    torch.testing.assert_close(models[0][1].running_var, models[1][1].running_var)


def test_what_is_not_supported_is_said_once_and_runs(recwarn):
    def function(x):
        return torch.special.bessel_j0(x) + 1

    compiled = torch.compile(function, backend=relax_dynamo(), dynamic=False)
    for size in (3, 4):
        torch.testing.assert_close(compiled(torch.ones(size)), function(torch.ones(size)))
    said = [str(item.message) for item in recwarn if "torch runs a graph" in str(item.message)]
    assert said == ["torch runs a graph itself: no converter for aten.special_bessel_j0.default"]


def test_sizes_of_compiled_functions_change():
    def function(x, count):
        return x.reshape(-1, 2) * count + x.shape[0], x.shape[0] // 2

    compiled = torch.compile(function, backend=relax_dynamo(), dynamic=True)
    for size in (4, 6, 8):
        found, wanted = [call(torch.arange(float(size)), size) for call in (compiled, function)]
        torch.testing.assert_close(found[0], wanted[0])
        assert found[1] == wanted[1]


def test_graphs_between_decisions_of_python_are_captured(mlp):
    def function(x):
        if x.sum() > 0:
            return mlp(x)
        return mlp(-x) + 1

    module = dynamo_capture_subgraphs(function, torch.ones(2, 4))
    names = sorted([name.name_hint for name in module.get_global_vars()])
    assert names == ["subgraph_0", "subgraph_1"]
    (found,) = run(module, "subgraph_1", np.ones((2, 4), "float32"))
    agree(found, mlp(torch.ones(2, 4)))
    kept = dynamo_capture_subgraphs(mlp, torch.ones(2, 4), keep_params_as_input=True)
    assert len(kept["subgraph_0"].params) == 5


def test_helpers_of_back_ends():
    assert device_from_inputs([3, torch.ones(2)]) == torch.device("cpu")
    assert device_from_inputs([3]) is None
    assert tilesmith.target.Target(llvm_target()).kind.name == "llvm"
