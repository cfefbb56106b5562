"""The loop of training: keeps parameters and states, and carries out steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relax.expr import Function, Var, known_struct_info
from tilesmith.relax.training.setup_trainer import ADJOINT, PREDICT, UPDATE_PARAMS
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import (
    ExecutionError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
)

__all__ = ["Trainer"]


class Trainer:
    """Trains the model of a module that `SetupTrainer` made.

    ``vm`` runs that module, compiled, on ``device``. Parameters and states are zero at first unless
    ``zero_init_param_state`` is false; they have to be loaded, or initialised, then.
    """

    def __init__(
        self, train_mod: IRModule, vm: Any, device: Any, zero_init_param_state: bool = True
    ) -> None:
        missing = [name for name in ("input_num", "optim_states") if name not in train_mod.attrs]
        adjoint = train_mod[ADJOINT] if ADJOINT in train_mod else None
        if missing or not isinstance(adjoint, Function):
            raise TypeMismatchError(
                "the module is not one for training", notes=("SetupTrainer makes it of a model",)
            )
        self.mod, self.vm = train_mod, vm
        self.device = device[0] if isinstance(device, (list, tuple)) else device
        attrs = train_mod.attrs
        self._input_num = int(attrs["input_num"])
        end = self._input_num + int(attrs["param_num"])
        self._param_vars = list(adjoint.params[self._input_num : end])
        self._state_vars = list(adjoint.params[end : end + int(attrs["state_num"])])
        self._params: list[Any] = [None] * len(self._param_vars)
        self._states: list[Any] = [None] * len(self._state_vars)
        self._optim_states: tuple[Any, ...] = tuple(
            [self._placed(one.numpy()) for one in attrs["optim_states"]]
        )
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    def _placed(self, value: Any, dtype: Any = None) -> NDArray:
        return array(value, self.device, dtype=dtype)

    # Parameters and states

    def xaiver_uniform_init_params(self) -> None:
        """Draw the parameters by the rule of Glorot and Bengio (2010): uniform, of a width by the
        sizes of the first two axes; vectors become zero.
        """
        generator = numpy.random.default_rng()
        for number, var in enumerate(self._param_vars):
            info: Any = known_struct_info(var)
            shape = self._shape(var)
            if len(shape) < 2:
                drawn = numpy.zeros(shape)
            else:
                field = math.prod(shape[2:])
                width = math.sqrt(6 / ((shape[0] + shape[1]) * field))
                drawn = generator.uniform(-width, width, shape)
            self._params[number] = self._placed(drawn, info.dtype)

    def zero_init_params(self) -> None:
        """Set all parameters to zero."""
        self._params = [self._zero(var) for var in self._param_vars]

    def zero_init_states(self) -> None:
        """Set all states of the model to zero."""
        self._states = [self._zero(var) for var in self._state_vars]

    def _shape(self, var: Var) -> tuple[int, ...]:
        shape = known_struct_info(var).concrete_shape  # type: ignore[attr-defined]
        if shape is None:
            raise ShapeError(
                f"the shape of '{var.name_hint}' is not known", notes=("load its value instead",)
            )
        sizes: tuple[int, ...] = shape
        return sizes

    def _zero(self, var: Var) -> NDArray:
        info: Any = known_struct_info(var)
        return self._placed(numpy.zeros(self._shape(var)), info.dtype)

    def load_params(self, params: Sequence[Any] | Mapping[str, Any]) -> None:
        """Set the parameters: all in order, or some by their names."""
        self._load(params, self._param_vars, self._params, "parameter")

    def load_states(self, states: Sequence[Any] | Mapping[str, Any]) -> None:
        """Set the states of the model: all in order, or some by their names."""
        self._load(states, self._state_vars, self._states, "state")

    def _load(self, given: Any, variables: list[Var], kept: list[Any], word: str) -> None:
        names = [var.name_hint for var in variables]
        if not isinstance(given, Mapping):
            if len(given) != len(names):
                raise TypeMismatchError(f"the model has {len(names)} {word}s, got {len(given)}")
            given = dict(zip(names, given))
        loaded = {}
        for name, value in given.items():
            if name not in names:
                raise UnknownNameError(
                    f"the model has no {word} '{name}'", notes=(f"{word}s: {', '.join(names)}",)
                )
            place = names.index(name)
            info: Any = known_struct_info(variables[place])
            loaded[place] = self._placed(getattr(value, "numpy", lambda v=value: v)(), info.dtype)
            if info.concrete_shape not in (None, tuple(loaded[place].shape)):
                raise ShapeError(
                    f"the {word} '{name}' has the shape {info.concrete_shape}, got "
                    f"{tuple(loaded[place].shape)}"
                )
        for place, value in loaded.items():
            kept[place] = value

    def export_params(self) -> dict[str, NDArray]:
        """Return the parameters by their names."""
        return dict(zip([var.name_hint for var in self._param_vars], self._params))

    def export_states(self) -> dict[str, NDArray]:
        """Return the states of the model by their names."""
        return dict(zip([var.name_hint for var in self._state_vars], self._states))

    def _check(self) -> None:
        names = [*self._param_vars, *self._state_vars]
        values = [*self._params, *self._states]
        missing = [var.name_hint for var, value in zip(names, values) if value is None]
        if missing:
            raise ExecutionError(
                f"these have no value yet: {', '.join(missing)}",
                notes=("load_params, load_states, or one of the methods that initialise them",),
            )

    # Steps

    def _inputs(self, given: Iterable[Any]) -> list[Any]:
        inputs = list(given)
        if len(inputs) != self._input_num:
            raise TypeMismatchError(f"the model has {self._input_num} inputs, got {len(inputs)}")
        return inputs

    def _arguments(self, input_instances: Any, targets: Any) -> list[Any]:
        self._check()
        inputs, goals = _several(input_instances), _several(targets)
        return [*self._inputs(inputs), *self._params, *self._states, *goals]

    def predict(self, *input_instances: Any) -> Any:
        """Return the results of the model, as it is at inference, without its states."""
        self._check()
        inputs = self._inputs(input_instances)
        result = self.vm[PREDICT](*inputs, *self._params, *self._states)
        if not self._states:
            return result
        rest = tuple(result)[: len(result) - len(self._states)]
        return rest[0] if len(rest) == 1 else rest

    def update(self, input_instances: Any, targets: Any) -> NDArray:
        """Carry out a step with inputs and targets (one, or several in a list), and return the
        loss before it.
        """
        result, gradients = self.vm[ADJOINT](*self._arguments(input_instances, targets))
        loss = result
        if self._states:
            loss, *self._states = tuple(result)[:1] + tuple(result)[-len(self._states) :]
        elif isinstance(result, (tuple, list)):
            loss = result[0]
        params, states = self.vm[UPDATE_PARAMS](
            tuple(self._params), _several(gradients), self._optim_states
        )
        self._params, self._optim_states = list(params), tuple(states)
        made: NDArray = loss
        return made

    def profile_adjoint(self, input_instances: Any, targets: Any) -> str:
        """Return a table of the time that the loss and its gradients take."""
        return str(self.vm.profile(ADJOINT, *self._arguments(input_instances, targets)))


def _several(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)
