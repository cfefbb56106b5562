"""Builds small models from layers, as ``tvm.relax.testing.nn`` does.

builder = relax.BlockBuilder()
with builder.function("main"):
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    data = nn.Placeholder((n, 784), name="data")
    builder.emit_func_output(model(data), [data, *model.parameters()])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relax import BlockBuilder, ShapeExpr, TensorStructInfo, Var, op
from tilesmith.relax.expr import known_struct_info
from tilesmith.runtime import NDArray, nd
from tilesmith.support.errors import DiagnosticError, ShapeError

__all__ = [
    "Linear", "LogSoftmax", "Module", "Parameter", "Placeholder", "ReLU", "Sequential",
    "checkpoint", "emit", "emit_checkpoint", "emit_checkpoint_sequential", "emit_te",
    "init_params",
]  # fmt: skip


def _builder() -> BlockBuilder:
    found = BlockBuilder.current()
    if found is None:
        raise DiagnosticError(
            "a layer is called while a function is built",
            notes=("write `with builder.function(name):` around it",),
        )
    return found


def emit(expr: Any, name_hint: str = "") -> Var:
    """Bind an expression in the function that is being built."""
    made: Var = _builder().emit(expr, name_hint)
    return made


def emit_te(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
    """Bind the call of a tensor expression's PrimFunc in the function that is being built."""
    made: Var = _builder().emit_te(func, *args, **kwargs)
    return made


def checkpoint(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what `func` computes; the gradient computes its inner values again instead of keeping
    them.
    """
    first = [_marked(op.grad.start_checkpoint, value) for value in args]
    named = {name: _marked(op.grad.start_checkpoint, value) for name, value in kwargs.items()}
    result = func(*first, **named)
    if isinstance(result, (list, tuple)):
        return type(result)([_marked(op.grad.end_checkpoint, value) for value in result])
    return _marked(op.grad.end_checkpoint, result)


def _marked(mark: Callable[[Any], Any], value: Any) -> Any:
    is_tensor = isinstance(getattr(value, "struct_info", None), TensorStructInfo)
    return mark(value) if is_tensor else value


def emit_checkpoint(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Bind what `checkpoint` returns."""
    result = checkpoint(func, *args, **kwargs)
    if isinstance(result, (list, tuple)):
        return type(result)([emit(value) for value in result])
    return emit(result)


def emit_checkpoint_sequential(
    functions: Sequence[Callable[..., Any]],
    segments: int | Sequence[int],
    input: Any,
    checkpoint_last: bool = False,
) -> Any:
    """Call functions one after the other, each segment of them as one checkpoint.

    `segments` is their number, or their lengths. The last one is no checkpoint unless
    `checkpoint_last`.
    """
    count = len(functions)
    if isinstance(segments, int):
        if not 0 < segments <= count:
            raise ShapeError(f"{count} functions cannot be divided into {segments} segments")
        lengths = [count // segments] * segments
        lengths[-1] += count % segments
    else:
        lengths = list(segments)
        if sum(lengths) != count:
            raise ShapeError(f"segments of {sum(lengths)} functions, but there are {count}")
    begin = 0
    for number, length in enumerate(lengths):
        chain = functions[begin : begin + length]
        is_last = number == len(lengths) - 1
        if is_last and not checkpoint_last:
            input = _chained(chain)(input)
        else:
            input = emit_checkpoint(_chained(chain), input)
        begin += length
    return input


def _chained(functions: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run


class Placeholder(Var):
    """An input of the model."""

    def __init__(
        self, shape: Sequence[Any], dtype: str | None = "float32", name: str = "data"
    ) -> None:
        super().__init__(_builder().get_unique_name(name), TensorStructInfo(shape, dtype))


class Parameter(Var):
    """A weight of the model."""

    def __init__(
        self, shape: Sequence[Any], dtype: str | None = "float32", name: str = "param"
    ) -> None:
        super().__init__(_builder().get_unique_name(name), TensorStructInfo(shape, dtype))


class Module:
    """A layer, or a model made of layers; classes derived from it define `forward`."""

    def parameters(self) -> list[Parameter]:
        """Return the parameters of the layer and of the layers inside of it."""
        return list(dict.fromkeys(_parameters(self.__dict__)))

    def forward(self, input: Any) -> Any:
        """Return the layer's result."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(input)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)


def _parameters(value: Any) -> Iterator[Parameter]:
    if isinstance(value, Parameter):
        yield value
    elif isinstance(value, Module):
        yield from value.parameters()
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _parameters(item)


def init_params(mod: IRModule) -> list[NDArray]:
    """Return a tensor of zeros for each parameter of `main` whose name does not begin with
    "data".
    """
    made = []
    function: Any = mod["main"]
    for param in function.params:
        if param.name_hint.startswith("data"):
            continue
        info: Any = known_struct_info(param)
        if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
            raise ShapeError(f"the shape of '{param.name_hint}' is not known")
        shape = info.concrete_shape
        if shape is None:
            raise ShapeError(f"the shape of '{param.name_hint}' has symbolic sizes: {info.shape}")
        made.append(nd.array(numpy.zeros(shape, info.dtype.numpy())))
    return made


class Sequential(Module):
    """Layers, each of which gets what the one before computes."""

    def __init__(self, *modules: Module) -> None:
        self.modules = modules

    def forward(self, input: Any) -> Any:
        """Return what the last layer computes."""
        return _chained(self.modules)(input)


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, input: Any) -> Any:
        """Return the layer's result."""
        return emit(op.nn.relu(input))


class LogSoftmax(Module):
    """log(softmax(x)) over the last axis."""

    def forward(self, input: Any) -> Any:
        """Return the layer's result."""
        return emit(op.nn.log_softmax(input))


class Linear(Module):
    """x · weight + bias."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter((in_features, out_features), name="linear_weight")
        self.bias = Parameter((out_features,), name="linear_bias") if bias else None

    def forward(self, input: Any) -> Any:
        """Return the layer's result."""
        product = emit(op.matmul(input, self.weight))
        return product if self.bias is None else emit(op.add(product, self.bias))
