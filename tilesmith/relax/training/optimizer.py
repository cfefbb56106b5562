"""Optimizers: each makes the function of the graph that updates parameters by their gradients.

    optimizer = Adam(1e-3)
    optimizer.init(params)                 # variables: their shapes and dtype
    function = optimizer.get_function()    # (params, gradients, states) -> (params, states)
    optimizer.state                        # the first states, tensors

States begin with the number of steps (int64). Constants have the dtype of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Function, Tuple, TupleGetItem, Var, const, known_struct_info
from tilesmith.relax.relations import describe
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import DiagnosticError, TypeMismatchError, UnsupportedError

__all__ = ["SGD", "Adam", "MomentumSGD", "Optimizer"]


class Optimizer:
    """Base of optimizers.

    One of one's own says in ``first_states`` what is kept between steps besides their number, and
    in ``step`` how a parameter and its states change.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.param_list: list[Var] | None = None
        self.dtype: DataType | None = None
        self.state: tuple[NDArray, ...] | None = None
        """The states before the first step; after training, what `Trainer.update` left is there."""

    def init(self, params: Var | Sequence[Var]) -> Optimizer:
        """Take the parameters that will be updated: their shapes and dtype, which is one."""
        chosen = [params] if isinstance(params, Var) else list(params)
        infos: list[Any] = [known_struct_info(one) for one in chosen]
        for one, info in zip(chosen, infos):
            if not isinstance(info, TensorStructInfo) or info.concrete_shape is None:
                raise TypeMismatchError(
                    f"the parameter '{one.name_hint}' is {describe(info)}; an optimizer keeps "
                    "states, which need a known shape"
                )
            if not info.dtype.is_float:
                raise TypeMismatchError(
                    f"the parameter '{one.name_hint}' is {info.dtype}, expected a float dtype"
                )
        dtypes = {info.dtype for info in infos}
        if len(dtypes) != 1 or len({id(one) for one in chosen}) != len(chosen):
            raise TypeMismatchError(
                "an optimizer takes one or more different parameters of one dtype, got "
                f"{len(chosen)} of {', '.join(sorted([str(one) for one in dtypes])) or 'no dtype'}"
            )
        self.param_list = chosen
        (self.dtype,) = dtypes
        steps = array(numpy.zeros((), "int64"))
        self.state = (steps, *[array(one) for one in self.first_states()])
        return self

    def first_states(self) -> list[Any]:
        """Return the states before the first step, besides the number of steps."""
        return []

    def zeros(self) -> list[Any]:
        """Return an array of zeros for each parameter."""
        infos: list[Any] = [known_struct_info(one) for one in self.param_list or ()]
        return [numpy.zeros(info.concrete_shape, info.dtype.numpy()) for info in infos]

    def scalar(self, value: float) -> NDArray:
        """Return a number in the dtype of the parameters, as a state."""
        return array(numpy.asarray(value), dtype=self.dtype)

    def number(self, value: float) -> Any:
        """Return a constant of the dtype of the parameters."""
        return const(value, self.dtype)

    def scaled(self, factor: float, value: Any) -> Any:
        """Return a value multiplied by a number; the value itself for one."""
        return value if factor == 1 else op.multiply(self.number(factor), value)

    def get_function(self) -> Function:
        """Return the function of parameters, gradients and states (tuples), which gives the new
        parameters and states.
        """
        if self.param_list is None or self.state is None:
            raise DiagnosticError(
                f"the optimizer {self.name} has no parameters yet", notes=("call init(params)",)
            )
        whole = TupleStructInfo(tuple([known_struct_info(one) for one in self.param_list]))
        states = TupleStructInfo(
            tuple([TensorStructInfo(one.shape, one.dtype) for one in self.state])
        )
        names = ("params", "gradients", "optim_states")
        arguments = [Var(name, info) for name, info in zip(names, (whole, whole, states))]
        builder = BlockBuilder()
        with builder.function(self.name, arguments):
            with builder.dataflow():
                params, kept = self._emit(builder, *arguments)
                new_params = builder.emit_output(Tuple(params), "params_new")
                new_states = builder.emit_output(Tuple(kept), "optim_states_new")
            builder.emit_func_output((new_params, new_states))
        made = builder.get()[self.name]
        assert isinstance(made, Function)
        return made

    def _emit(
        self, builder: BlockBuilder, params: Var, gradients: Var, states: Var
    ) -> tuple[list[Any], list[Any]]:
        """Emit the update of all parameters; return them and the states."""
        olds = self.param_list or []
        kept = [
            builder.emit(TupleGetItem(states, number), f"state_{number}")
            for number in range(len(self.state or ()))
        ]
        steps = builder.emit(op.add(kept[0], const(1, "int64")), "num_steps_new")
        common = self.common(builder, kept[1:])
        own, new_params, columns = kept[1 + len(common) :], [], []
        for number, old in enumerate(olds):
            name = old.name_hint
            param = builder.emit(TupleGetItem(params, number), name)
            gradient = builder.emit(TupleGetItem(gradients, number), f"{name}_grad")
            mine = own[number :: len(olds)]
            new, changed = self.step(builder, param, gradient, mine, common)
            new_params.append(builder.emit(new, f"{name}_new"))
            columns.append(changed)
        rows = [state for row in zip(*columns) for state in row]
        return new_params, [steps, *common, *rows]

    def common(self, builder: BlockBuilder, states: list[Var]) -> list[Var]:
        """Emit the update of the states that all parameters share; return the new ones."""
        return []

    def step(
        self,
        builder: BlockBuilder,
        param: Var,
        gradient: Var,
        states: list[Var],
        common: list[Var],
    ) -> tuple[Any, list[Any]]:
        """Return a parameter after a step, and its states."""
        raise UnsupportedError(
            f"the optimizer '{self.name}' does not say what a step is",
            notes=("define step(builder, param, gradient, states, common)",),
        )


class SGD(Optimizer):
    """Gradient descent: ``p - lr * g``, where ``weight_decay * p`` is added to ``g``.

    State: the number of steps.
    """

    def __init__(self, lr: float, weight_decay: float = 0) -> None:
        super().__init__("SGD")
        self.lr, self.weight_decay = float(lr), float(weight_decay)

    def decayed(self, builder: BlockBuilder, param: Var, gradient: Var) -> Var:
        """Return the gradient with the weight decay."""
        if not self.weight_decay:
            return gradient
        return builder.emit(op.add(self.scaled(self.weight_decay, param), gradient))

    def step(
        self,
        builder: BlockBuilder,
        param: Var,
        gradient: Var,
        states: list[Var],
        common: list[Var],
    ) -> tuple[Any, list[Any]]:
        """Return ``p - lr * g``."""
        gradient = self.decayed(builder, param, gradient)
        return op.subtract(param, self.scaled(self.lr, gradient)), []


class MomentumSGD(SGD):
    """Gradient descent with momentum: ``v = momentum * v + (1 - dampening) * g``, ``p - lr * v``;
    with ``nesterov``, ``p - lr * (g + momentum * v)``.

    States: the number of steps, the velocities, which begin as zeros.
    """

    def __init__(
        self,
        lr: float,
        momentum: float,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(lr, weight_decay)
        self.name = "MomentumSGD"
        self.momentum, self.dampening = float(momentum), float(dampening)
        self.nesterov = bool(nesterov)

    def first_states(self) -> list[Any]:
        """Return velocities of zero."""
        return self.zeros()

    def step(
        self,
        builder: BlockBuilder,
        param: Var,
        gradient: Var,
        states: list[Var],
        common: list[Var],
    ) -> tuple[Any, list[Any]]:
        """Return the parameter moved by its velocity, and that."""
        gradient = self.decayed(builder, param, gradient)
        old = self.scaled(self.momentum, states[0])
        velocity = builder.emit(op.add(old, self.scaled(1 - self.dampening, gradient)))
        moved: Any = velocity
        if self.nesterov:
            moved = op.add(gradient, self.scaled(self.momentum, velocity))
        return op.subtract(param, self.scaled(self.lr, moved)), [velocity]


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): steps by the mean of the gradients over the root of the mean of
    their squares, both corrected for their beginning at zero.

    States: the number of steps, the powers of both betas, the means, the means of the squares.
    """

    def __init__(
        self,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0,
    ) -> None:
        super().__init__("Adam")
        self.lr, self.eps, self.weight_decay = float(lr), float(eps), float(weight_decay)
        self.betas = (float(betas[0]), float(betas[1]))

    def first_states(self) -> list[Any]:
        """Return powers of one, and means of zero."""
        one = self.scalar(1)
        return [one, one, *self.zeros(), *self.zeros()]

    def common(self, builder: BlockBuilder, states: list[Var]) -> list[Var]:
        """Return the next powers of the betas."""
        return [
            builder.emit(op.multiply(state, self.number(beta)))
            for state, beta in zip(states, self.betas)
        ]

    def step(
        self,
        builder: BlockBuilder,
        param: Var,
        gradient: Var,
        states: list[Var],
        common: list[Var],
    ) -> tuple[Any, list[Any]]:
        """Return the parameter after a step, and both means."""
        if self.weight_decay:
            gradient = builder.emit(op.add(self.scaled(self.weight_decay, param), gradient))
        square = builder.emit(op.multiply(gradient, gradient))
        means = [
            builder.emit(op.add(self.scaled(beta, old), self.scaled(1 - beta, new)))
            for beta, old, new in zip(self.betas, states, (gradient, square))
        ]
        corrected = [
            op.divide(mean, op.subtract(self.number(1), power))
            for mean, power in zip(means, common)
        ]
        root = op.add(op.sqrt(corrected[1]), self.number(self.eps))
        change = op.divide(self.scaled(self.lr, corrected[0]), root)
        return op.subtract(param, change), means
