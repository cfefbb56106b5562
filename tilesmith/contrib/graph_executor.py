"""Defines `GraphModule`: a compiled model that is run step by step: set inputs, run, get
outputs.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy

from tilesmith.runtime.device_models import model_on
from tilesmith.runtime.devices import RPC_SESS_MASK, Device, cpu
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.params import load_param_dict
from tilesmith.runtime.timing import BenchmarkResult, evaluator
from tilesmith.support.errors import (
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

_CONVERTED = frozenset(
    ["float16", "float32", "float64", *[f"{kind}{bits}" for kind in ("int", "uint")
                                        for bits in (8, 16, 32, 64)]]
)  # fmt: skip
"""Dtypes to which `set_input` converts numbers of the same kind."""


def get_device(libmod: Any, device: Device | Sequence[Device]) -> tuple[Any, ...]:
    """Return the devices of a module as a list, the number of those that belong to remote sessions,
    and the numbers of their types and their own.

    Raises TypeMismatchError where a module and its device are on different machines.
    """
    devices = [device] if isinstance(device, Device) else list(device)
    for one in devices:
        if not isinstance(one, Device):
            raise TypeMismatchError(
                f"a device is needed, such as tilesmith.cpu(), not {type(one).__name__}"
            )
    remote = [one.device_type // RPC_SESS_MASK for one in devices]
    home = getattr(libmod, "device", None) or cpu()
    if any(session != home.device_type // RPC_SESS_MASK for session in remote):
        raise TypeMismatchError(
            f"the program cannot run on {', '.join([str(one) for one in devices])}: "
            f"it is on the machine of {home}",
            notes=('upload it: remote.upload("lib.so"), then remote.load_module("lib.so")',),
        )
    numbers = [number for one in devices for number in (one.device_type, one.device_id)]
    return devices, sum([session > 0 for session in remote]), numbers


def create(graph_json_str: str, libmod: Any, device: Device | Sequence[Device]) -> GraphModule:
    """Return a GraphModule for a compiled program and its graph, as ``relay.build`` gives them.

    The program itself knows how its kernels follow each other; the graph is checked to be one.
    """
    graph = json.loads(graph_json_str)
    if not isinstance(graph, dict) or not {"nodes", "arg_nodes", "heads"} <= set(graph):
        raise TypeMismatchError(
            "this is not the JSON of a graph: it needs nodes, arg_nodes and heads",
            notes=("take it from relay.build: graph, lib, params = relay.build(…)",),
        )
    devices, _, _ = get_device(libmod, device)
    return GraphModule(model_on(getattr(libmod, "module", libmod), devices))


def checksum(value: NDArray) -> int:
    """Return a number that tells the value of a tensor from others."""
    data = value.numpy()
    kind = f"{data.dtype} {data.shape}".encode()
    return zlib.crc32(data.tobytes(), zlib.crc32(kind))


class ExecutorModule:
    """Gives the functions of an executor by name, as programs take them from `GraphModule.module`
    (``module["run"]``, ``module.time_evaluator("run", dev)``); all else is the compiled program's.
    """

    def __init__(self, executor: GraphModule, program: Any) -> None:
        self._executor = executor
        self.module = program

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self._executor, name) if name in _FUNCTIONS else self.module[name]

    def get_function(self, name: str) -> Any:
        """Return a function of the executor, or of the program."""
        return self[name] if name in _FUNCTIONS else self.module.get_function(name)

    def time_evaluator(self, func_name: str, dev: Any = None, **options: Any) -> Any:
        """Return a function that measures another one: ``run`` on the inputs that are set."""
        if func_name != "run":
            return self.module.time_evaluator(func_name, dev, **options)
        return lambda: self._executor.benchmark(dev, **{"repeat": 1, "number": 10, **options})


_FUNCTIONS = frozenset(
    [
        "get_input", "get_input_index", "get_input_info", "get_num_inputs", "get_num_outputs",
        "get_output", "load_params", "run", "set_input", "set_input_zero_copy",
        "set_output_zero_copy", "share_params",
    ]
)  # fmt: skip


class GraphModule:
    """Runs `main` of a model with inputs that are kept between runs.

    `module` is an Executable (or anything with its `get_function` and `signature`, such as one that
    a remote session has loaded: inputs and outputs are at the server then).
    """

    def __init__(self, module: Any) -> None:
        module = getattr(module, "module", module)
        self.module = ExecutorModule(self, module)
        self._main = module.get_function("main")
        self._params = self._main.signature.params
        self._names = [param.name for param in self._params]
        self._device: Device = getattr(module, "device", None) or cpu()
        self._values: dict[str, Any] = {}
        self._outputs: tuple[NDArray, ...] = ()
        self._targets: dict[int, NDArray] = {}

    def set_input(
        self, key: str | int | Mapping[str, Any] | None = None, value: Any = None, **params: Any
    ) -> None:
        """Set inputs (copied) by name or number; a mapping sets several."""
        if isinstance(key, Mapping):
            params = {**key, **params}
        elif key is not None:
            self._set(key, value)
        for name, one in params.items():
            self._set(name, one)

    def _set(self, key: str | int, value: Any) -> None:
        bound = getattr(self.module, "metadata", {}).get("bound_params", {})
        if key in bound and key not in self._names:
            self._check_constant(str(key), bound[str(key)] == checksum(array(value)))
            return
        constants = getattr(self.module, "constants", {})
        if key in constants and key not in self._names:
            known, given = constants[str(key)], array(value).numpy()
            is_same = known.shape == given.shape and known.tobytes() == given.tobytes()
            self._check_constant(str(key), is_same)
            return
        self._keep(self._name(key), value)

    def _keep(self, name: str, value: Any) -> None:
        """Copy an input. Numbers on the host become those of the input's dtype if that is of their
        kind; another shape is refused.
        """
        wanted = next(param for param in self._params if param.name == name)
        if not isinstance(value, NDArray) and wanted.dtype is not None:
            given, dtype = numpy.asarray(value), str(wanted.dtype)
            if given.dtype.kind in "iuf" and dtype in _CONVERTED:
                value = given.astype(dtype) if numpy.can_cast(given, dtype, "same_kind") else given
        made = array(value, self._device)
        sizes = list(zip(wanted.shape or (), made.shape))
        if wanted.shape is not None and (
            len(wanted.shape) != len(made.shape)
            or any(isinstance(size, int) and size != found for size, found in sizes)
        ):
            raise ShapeError(f"input '{name}' has shape {wanted.shape}, got {made.shape}")
        self._values[name] = made

    def _check_constant(self, name: str, is_same: bool) -> None:
        """Accept the value that a constant has; no other one is possible any more."""
        if not is_same:
            raise UnsupportedError(
                f"'{name}' is a constant of the compiled program and cannot be changed",
                notes=("build without params, and set the parameters as inputs",),
            )

    def set_input_zero_copy(
        self, key: str | int | None = None, value: Any = None, **params: Any
    ) -> None:
        """Set inputs without copying them: later writes to them are seen."""
        if key is not None:
            params = {self._name(key): value, **params}
        for name, one in params.items():
            self._values[self._name(name)] = one

    def set_output_zero_copy(self, key: int, value: NDArray) -> None:
        """Let each run store an output into a tensor, too. A run makes its outputs itself, so this
        is a copy after all.
        """
        if not 0 <= key < self.get_num_outputs():
            raise UnknownNameError(f"the model has {self.get_num_outputs()} outputs, not {key}")
        self._targets[key] = value

    def _name(self, key: str | int) -> str:
        if isinstance(key, int):
            if not 0 <= key < len(self._names):
                raise UnknownNameError(f"the model has {len(self._names)} inputs, not input {key}")
            return self._names[key]
        if key not in self._names:
            raise UnknownNameError(
                f"the model has no input '{key}'", notes=(f"it has: {', '.join(self._names)}",)
            )
        return key

    def run(self, **input_dict: Any) -> None:
        """Run the model on the inputs that are set, after setting those given here."""
        if input_dict:
            self.set_input(**input_dict)
        result = self._main(**self._values)
        self._outputs = result if isinstance(result, tuple) else (result,)
        for index, target in self._targets.items():
            target.copyfrom(self._outputs[index])

    def get_num_inputs(self) -> int:
        """Return the number of inputs."""
        return len(self._names)

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self._main.signature.result.fields) or 1

    def get_input_index(self, name: str) -> int:
        """Return the position of an input, or -1 if there is none of that name."""
        return self._names.index(name) if name in self._names else -1

    def get_input_info(self) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
        """Return shapes and dtypes of the inputs by name."""
        shapes = {param.name: param.shape for param in self._params}
        return shapes, {param.name: str(param.dtype) for param in self._params}

    def get_input(self, index: str | int, out: NDArray | None = None) -> Any:
        """Return the input that is set, copied to `out` if that is given."""
        value = self._values.get(self._name(index))
        return value if out is None else out.copyfrom(value)

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """Return an output of the last run, copied to `out` if that is given."""
        if not 0 <= index < len(self._outputs):
            raise TypeMismatchError(
                f"there is no output {index}: the last run gave {len(self._outputs)}",
                notes=("call run() first",) if not self._outputs else (),
            )
        return self._outputs[index] if out is None else out.copyfrom(self._outputs[index])

    def debug_get_output(self, node: str | int, out: NDArray | None = None) -> NoReturn:
        """Raise UnsupportedError: values between fused operators are not stored."""
        raise UnsupportedError(
            f"the value of node {node!r} is not stored: operators are fused",
            notes=(
                "contrib.debugger.debug_executor.create runs the program node by node",
                "or make the value an output of the model",
            ),
        )

    def load_params(self, params_bytes: bytes) -> None:
        """Set inputs from the bytes of `save_param_dict`."""
        for name, value in load_param_dict(params_bytes).items():
            if name in self._names:
                self._keep(name, value)

    def share_params(self, other: GraphModule, params_bytes: bytes) -> None:
        """Use the same tensors as another module for the parameters that are named in the bytes of
        `save_param_dict`.
        """
        for name in load_param_dict(params_bytes):
            if name in self._names:
                self.set_input_zero_copy(name, other.get_input(name))

    def benchmark(
        self,
        device: Any = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Measure `run` on the inputs that are set, after setting those given here; with
        ``end_to_end``, the copies of inputs from the host to the device and of outputs back, too.
        """
        if kwargs:
            self.set_input(**kwargs)
        measure = evaluator(
            self._end_to_end if end_to_end else self._main,
            device,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms or 0,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )
        missing = [name for name in self._names if name not in self._values]
        if missing:
            raise TypeMismatchError(
                f"the input '{missing[0]}' is not set", notes=("call set_input first",)
            )
        values = self._values
        if end_to_end:
            values = {name: array(value, cpu()) for name, value in values.items()}
        return measure(**values)

    def _end_to_end(self, **values: Any) -> None:
        result = self._main(**{name: array(one, self._device) for name, one in values.items()})
        for one in result if isinstance(result, tuple) else (result,):
            array(one, cpu())

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)
