"""Losses, optimizers and whole training against torch."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax, te
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.relax import interpreter
from tilesmith.relax.training import AppendLoss, SetupTrainer, Trainer, register_te_gradient
from tilesmith.relax.training import loss as losses
from tilesmith.relax.training.optimizer import SGD, Adam, MomentumSGD
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import (
    DiagnosticError,
    ExecutionError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

torch = pytest.importorskip("torch")
F = torch.nn.functional
rng = np.random.default_rng(3)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


# Losses

CLASSES = np.array([1, 0, 3, 1, 2], "int64")
SHARES = np.abs(f32(5, 4)) / 3
WEIGHTS = np.abs(f32(4)) + 0.2
LOSSES = {
    "l1": (losses.L1Loss, F.l1_loss, [f32(5, 4), f32(5, 4)]),
    "mse": (losses.MSELoss, F.mse_loss, [f32(5, 4), f32(5, 4)]),
    "classes": (losses.CrossEntropyLoss, F.cross_entropy, [f32(5, 4), CLASSES]),
    "weighted": (
        losses.CrossEntropyLoss,
        lambda p, t, w, **k: F.cross_entropy(p, t, w, **k),
        [f32(5, 4), CLASSES, WEIGHTS],
    ),
    "one": (
        losses.CrossEntropyLoss,
        F.cross_entropy,
        [f32(4), np.array(2, "int64")],
    ),
    "shares": (losses.CategoricalCrossEntropyLoss, F.cross_entropy, [f32(5, 4), SHARES]),
    "shares weighted": (
        losses.CategoricalCrossEntropyLoss,
        lambda p, t, w, **k: F.cross_entropy(p, t, w, **k),
        [f32(5, 4), SHARES, WEIGHTS],
    ),
}


def infos(arrays):
    return [R.Tensor(one.shape, str(one.dtype)) for one in arrays]


def run_function(function, *arrays):
    return interpreter.run(ts.IRModule({"main": function}), "main", *arrays)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_agree_with_torch(name, reduction):
    made, reference, arrays = LOSSES[name]
    function = made(reduction=reduction)(*infos(arrays))
    expected = reference(*[torch.tensor(one) for one in arrays], reduction=reduction)
    found = run_function(function, *arrays)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert made().num_backbone_outputs == 1


def test_ignored_classes():
    predictions = f32(5, 4)
    function = losses.CrossEntropyLoss(ignore_index=1)(*infos([predictions, CLASSES]))
    expected = F.cross_entropy(
        torch.tensor(predictions), torch.tensor(CLASSES), ignore_index=1
    ).numpy()
    np.testing.assert_allclose(run_function(function, predictions, CLASSES), expected, rtol=1e-5)
    function = losses.CategoricalCrossEntropyLoss(ignore_index=2)(*infos([predictions, SHARES]))
    without = SHARES * (np.arange(4) != 2)
    expected = F.cross_entropy(torch.tensor(predictions), torch.tensor(without.astype("float32")))
    np.testing.assert_allclose(
        run_function(function, predictions, SHARES), expected.numpy(), rtol=1e-5
    )


def test_the_program_of_a_loss():
    @R.function
    def mse_loss(
        predictions: R.Tensor((2, 3), "float32"), targets: R.Tensor((2, 3), "float32")
    ) -> R.Tensor((), "float32"):
        R.func_attr({"global_symbol": "mse_loss"})
        with R.dataflow():
            lv = R.subtract(predictions, targets)
            lv1 = R.multiply(lv, lv)
            gv = R.mean(lv1)
            R.output(gv)
        return gv

    info = R.Tensor((2, 3), "float32")
    assert_structural_equal(losses.MSELoss()(info, info), mse_loss)


def test_refused_losses():
    with pytest.raises(UnsupportedError, match="reduction"):
        losses.MSELoss("max")
    with pytest.raises(TypeMismatchError, match="takes predictions, targets, got 1"):
        losses.MSELoss()(R.Tensor((2,), "float32"))
    with pytest.raises(UnsupportedError, match="what it computes"):
        losses.Loss("own", 1)(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))


# Optimizers

OPTIMIZERS = {
    "sgd": (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd decay": (SGD(0.1, 0.03), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.03)),
    "momentum": (MomentumSGD(0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "nesterov": (
        MomentumSGD(0.1, 0.9, 0, 0.02, True),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, 0, 0.02, nesterov=True),
    ),
    "adam": (Adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
    "adam decay": (
        Adam(0.01, (0.8, 0.99), 1e-6, 0.1),
        lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.99), 1e-6, 0.1),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_agree_with_torch(name):
    optimizer, reference = OPTIMIZERS[name]
    values = [f32(3, 2), f32(2)]
    params = [relax.Var(f"p{i}", R.Tensor(one.shape, "float32")) for i, one in enumerate(values)]
    optimizer.init(params)
    function = optimizer.get_function()
    tensors = [torch.tensor(one, requires_grad=True) for one in values]
    other = reference(tensors)
    states = tuple([one.numpy() for one in optimizer.state])
    current = tuple(values)
    for step in range(3):
        gradients = (f32(3, 2), f32(2))
        current, states = run_function(function, current, gradients, states)
        for tensor, gradient in zip(tensors, gradients):
            tensor.grad = torch.tensor(gradient)
        other.step()
        for mine, theirs in zip(current, tensors):
            np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=2e-5, atol=1e-6)
        assert int(states[0]) == step + 1


def test_dampening_begins_with_the_first_step():
    optimizer = MomentumSGD(0.5, 0.9, dampening=0.25)
    optimizer.init(relax.Var("p", R.Tensor((2,), "float32")))
    one, zero = np.ones(2, "float32"), np.zeros(2, "float32")
    (moved,), (_, velocity) = run_function(
        optimizer.get_function(), (zero,), (one,), (np.int64(0), zero)
    )
    np.testing.assert_allclose(velocity, 0.75 * one)
    np.testing.assert_allclose(moved, -0.375 * one)


def test_refused_parameters():
    with pytest.raises(DiagnosticError, match="no parameters yet"):
        SGD(0.1).get_function()
    whole = relax.Var("p", R.Tensor((2,), "float32"))
    for wrong in (
        [],
        [whole, whole],
        [whole, relax.Var("q", R.Tensor((2,), "float64"))],
        relax.Var("p", R.Tensor((2,), "int32")),
        relax.Var("p", R.Tensor(ndim=2, dtype="float32")),
    ):
        with pytest.raises(TypeMismatchError):
            SGD(0.1).init(wrong)


# Joining a loss


@I.ir_module
class TwoResults:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32")):
        R.func_attr({"global_symbol": "main"})
        with R.dataflow():
            lv = R.matmul(x, w)
            out = R.nn.relu(lv)
            more = R.exp(lv)
            R.output(out, more)
        return out, more


def test_append_loss():
    n = ts.tir.Var("m", "int64")
    info = R.Tensor((n, 2), "float32")
    joined = AppendLoss("main", losses.L1Loss()(info, info), 1)(TwoResults)
    relax.analysis.assert_well_formed(joined)
    x, w, t = f32(4, 3), f32(3, 2), f32(4, 2)
    loss, more = interpreter.run(joined, "main_loss", x, w, t)
    np.testing.assert_allclose(loss, np.abs(np.maximum(x @ w, 0) - t).mean(), rtol=1e-5)
    np.testing.assert_allclose(more, np.exp(x @ w), rtol=1e-5)
    assert [one.name_hint for one in joined["main_loss"].params] == ["x", "w", "targets"]
    both = AppendLoss("main", losses.L1Loss()(info, info), 2, "both")(TwoResults)
    value = interpreter.run(both, "both", x, w)
    np.testing.assert_allclose(value, np.abs(np.maximum(x @ w, 0) - np.exp(x @ w)).mean(), 1e-5)
    with pytest.raises(TypeMismatchError, match="takes 3 results"):
        AppendLoss("main", losses.L1Loss()(info, info), 3)(TwoResults)


# Gradients of tensor expressions


def test_gradient_of_a_tensor_expression():
    @register_te_gradient("scaled_product_grad")
    def gradient(output_grad, a, b, scale):
        by = lambda other: te.compute(a.shape, lambda *i: output_grad(*i) * other(*i) * scale)
        return [by(b), by(a)]

    def product(a, b, scale):
        return te.compute(a.shape, lambda *i: a(*i) * b(*i) * scale)

    builder = relax.BlockBuilder()
    x, y = [relax.Var(name, R.Tensor((3, 2), "float32")) for name in "xy"]
    with builder.function("main", [x, y]):
        with builder.dataflow():
            call = builder.call_te_with_grad(
                product,
                x,
                y,
                3.0,
                te_grad_name="scaled_product_grad",
                te_grad_kwargs={"scale": 3.0},
            )
            assert call.op.name == "relax.call_tir_with_grad"
            made = builder.emit(call)
            out = builder.emit_output(relax.op.sum(relax.op.multiply(made, made)))
        builder.emit_func_output(out)
    mod = relax.transform.Gradient("main")(builder.get())
    relax.analysis.assert_well_formed(mod)
    assert "scaled_product_grad" in mod and "call_tir_with_grad" not in mod["main_adjoint"].script()
    a, b = f32(3, 2), f32(3, 2)
    mine = ts.relax.build(mod, "llvm")["main_adjoint"](a, b)
    tensors = [torch.tensor(one, requires_grad=True) for one in (a, b)]
    ((tensors[0] * tensors[1] * 3) ** 2).sum().backward()
    for found, tensor in zip(mine[1], tensors):
        np.testing.assert_allclose(found.numpy(), tensor.grad.numpy(), rtol=1e-5)


def test_unknown_gradient_of_a_tensor_expression():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            call = builder.call_te_with_grad(
                lambda a: te.compute(a.shape, lambda *i: a(*i) + 1.0), x, te_grad_name="no_such"
            )
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    with pytest.raises(UnknownNameError, match="no_such"):
        relax.transform.Gradient("main")(builder.get())


# Whole training


@I.ir_module
class Perceptron:
    I.module_attrs({"param_num": 4, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((5, 6), "float32"),
        w0: R.Tensor((6, 7), "float32"),
        b0: R.Tensor((7,), "float32"),
        w1: R.Tensor((7, 3), "float32"),
        b1: R.Tensor((3,), "float32"),
    ) -> R.Tensor((5, 3), "float32"):
        R.func_attr({"global_symbol": "backbone"})
        with R.dataflow():
            lv0 = R.nn.relu(R.add(R.matmul(x, w0), b0))
            out = R.add(R.matmul(lv0, w1), b1)
            R.output(out)
        return out


def make_trainer(mod, loss, optimizer, args, **options):
    trained = SetupTrainer(loss, optimizer, args)(mod)
    vm = relax.VirtualMachine(ts.relax.build(trained, "llvm"), ts.cpu())
    return Trainer(trained, vm, ts.cpu(), **options)


def test_a_network_trains_as_with_torch():
    args = [R.Tensor((5, 3), "float32"), R.Tensor((5,), "int64")]
    trainer = make_trainer(
        Perceptron, losses.CrossEntropyLoss(), Adam(0.02), args, zero_init_param_state=False
    )
    with pytest.raises(ExecutionError, match="no value yet: w0, b0"):
        trainer.predict(f32(5, 6))
    values = [f32(6, 7), f32(7), f32(7, 3), f32(3)]
    trainer.load_params(dict(zip(["w0", "b0", "w1", "b1"], values)))
    tensors = [torch.tensor(one, requires_grad=True) for one in values]
    other = torch.optim.Adam(tensors, 0.02)
    found = []
    x, labels = f32(5, 6), np.array([0, 2, 1, 1, 0], "int64")
    for _ in range(8):
        a = torch.relu(torch.tensor(x) @ tensors[0] + tensors[1]) @ tensors[2] + tensors[3]
        np.testing.assert_allclose(
            trainer.predict(x).numpy(), a.detach().numpy(), rtol=1e-4, atol=1e-5
        )
        expected = F.cross_entropy(a, torch.tensor(labels))
        other.zero_grad()
        expected.backward()
        other.step()
        found.append(float(trainer.update([x], [labels]).numpy()))
        np.testing.assert_allclose(found[-1], float(expected.detach()), rtol=1e-4)
        for name, tensor in zip(trainer.export_params(), tensors):
            np.testing.assert_allclose(
                trainer.export_params()[name].numpy(), tensor.detach().numpy(), rtol=1e-3, atol=1e-4
            )
    assert found[-1] < found[0]
    assert "backbone_loss_adjoint" in trainer.profile_adjoint(x, labels)
    trainer.xaiver_uniform_init_params()
    drawn = trainer.export_params()["w0"].numpy()
    assert drawn.std() > 0 and np.abs(drawn).max() <= np.sqrt(6 / 13)
    trainer.zero_init_params()
    assert not trainer.export_params()["w1"].numpy().any()
    with pytest.raises(UnknownNameError, match="no parameter 'w9'"):
        trainer.load_params({"w9": values[0]})
    with pytest.raises(ShapeError, match="'b1' has the shape"):
        trainer.load_params({"b1": values[1]})
    with pytest.raises(TypeMismatchError, match="4 parameters, got 1"):
        trainer.load_params([values[0]])


@I.ir_module
class Counting:
    I.module_attrs({"param_num": 1, "state_num": 1})

    @R.function
    def backbone(
        x: R.Tensor((4, 2), "float32"),
        w: R.Tensor((2, 3), "float32"),
        average: R.Tensor((3,), "float32"),
    ):
        R.func_attr({"global_symbol": "backbone"})
        with R.dataflow():
            out = R.matmul(x, w)
            new = R.add(
                R.multiply(average, R.const(0.5, "float32")),
                R.multiply(R.mean(out, axis=0), R.const(0.5, "float32")),
            )
            R.output(out, new)
        return out, new


def test_states_of_a_model():
    args = [R.Tensor((4, 3), "float32")] * 2
    trainer = make_trainer(Counting, losses.MSELoss("sum"), SGD(0.01), args)
    w, x, y = f32(2, 3), f32(4, 2), f32(4, 3)
    trainer.load_params([w])
    trainer.load_states({"average": np.ones(3, "float32")})
    loss = trainer.update(x, y)
    np.testing.assert_allclose(loss.numpy(), ((x @ w - y) ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(
        trainer.export_states()["average"].numpy(), 0.5 + 0.5 * (x @ w).mean(0), rtol=1e-5
    )
    np.testing.assert_allclose(
        trainer.export_params()["w"].numpy(), w - 0.02 * x.T @ (x @ w - y), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        trainer.predict(x).numpy(), x @ trainer.export_params()["w"].numpy(), rtol=1e-4, atol=1e-5
    )


def test_batch_normalisation_trains_as_with_torch():
    """Gradients go through the statistics of the batch; the moving ones are updated in each step,
    and prediction uses them.
    """
    builder = relax.BlockBuilder()
    shapes = {"x": (5, 3), "w": (3, 4), "gamma": (4,), "beta": (4,), "mean": (4,), "var": (4,)}
    x, w, *rest = [relax.Var(name, R.Tensor(size, "float32")) for name, size in shapes.items()]
    with builder.function("backbone", [x, w, *rest]):
        with builder.dataflow():
            hidden = builder.emit(relax.op.matmul(x, w))
            normal = builder.emit(relax.op.nn.batch_norm(hidden, *rest, axis=1, training=True))
            outputs = [builder.emit_output(normal[place]) for place in range(3)]
        builder.emit_func_output(relax.Tuple(outputs))
    mod = builder.get().with_attrs({"param_num": 3, "state_num": 2})
    args = [R.Tensor((5, 4), "float32")] * 2
    trainer = make_trainer(mod, losses.MSELoss(), SGD(0.1), args, zero_init_param_state=False)
    weight = f32(3, 4)
    trainer.load_params({"w": weight, "gamma": np.ones(4, "float32"), "beta": f32(4)})
    beta = trainer.export_params()["beta"].numpy()
    trainer.load_states({"mean": np.zeros(4, "float32"), "var": np.ones(4, "float32")})
    linear, norm = torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weight.T))
        norm.bias.copy_(torch.tensor(beta))
    model = torch.nn.Sequential(linear, norm)
    other = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        data, target = f32(5, 3), f32(5, 4)
        expected = F.mse_loss(model.train()(torch.tensor(data)), torch.tensor(target))
        other.zero_grad()
        expected.backward()
        other.step()
        found = trainer.update(data, target)
        np.testing.assert_allclose(found.numpy(), expected.item(), rtol=1e-4)
        states = trainer.export_states()
        for name, wanted in (("mean", norm.running_mean), ("var", norm.running_var)):
            np.testing.assert_allclose(states[name].numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    predicted = trainer.predict(data)
    predicted = predicted[0] if not hasattr(predicted, "numpy") else predicted
    wanted = model.eval()(torch.tensor(data)).detach().numpy()
    np.testing.assert_allclose(predicted.numpy(), wanted, rtol=1e-3, atol=1e-4)


def test_refused_modules():
    args = [R.Tensor((5, 3), "float32")] * 2
    assert SetupTrainer.ADJOINT_FUNC == "backbone_loss_adjoint"
    setup = SetupTrainer(losses.MSELoss(), SGD(0.1), args)
    with pytest.raises(UnknownNameError, match="no function 'backbone'"):
        setup(TwoResults)
    with pytest.raises(UnknownNameError, match="no attribute 'param_num'"):
        setup(Perceptron.without_attr("param_num"))
    with pytest.raises(TypeMismatchError, match="do not fit"):
        setup(Perceptron.with_attr("param_num", 9))
    with pytest.raises(TypeMismatchError, match="not one for training"):
        Trainer(Perceptron, None, ts.cpu())
