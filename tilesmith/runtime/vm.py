"""``runtime.vm``: programs of the functional door with their bytecode, and the machine for them.

    exe = relay.vm.compile(mod, "llvm")
    code, lib = exe.save()                            # bytes, and the compiled kernels
    again = Executable.load_exec(code, lib)
    VirtualMachine(again, tilesmith.cpu()).run(x)

The bytecode are the programs of steps of `runtime.program` as JSON, behind a line that tells the
version and a digest; it holds no code of Python's. Functions that need no steps are native code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.runtime.devices import RPC_SESS_MASK, Device, cpu
from tilesmith.runtime.executable import Executable as Compiled
from tilesmith.runtime.executable import with_parts
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.params import load_param_dict_from_file, save_param_dict_to_file
from tilesmith.runtime.program import as_value
from tilesmith.runtime.program_text import program_text
from tilesmith.runtime.relax_vm import VirtualMachine as Machine
from tilesmith.runtime.timing import BenchmarkResult, evaluator
from tilesmith.support.errors import (
    ArtifactError,
    ConfigError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.files import PathLike

__all__ = ["Executable", "VirtualMachine", "convert"]

_MAGIC = "tilesmith-vm-1"
_IN_CODE = ("programs", "parts", "module_name")


def convert(args: Sequence[Any]) -> list[Any]:
    """Return arguments as values of the machine: arrays and numbers become tensors, lists
    tuples.
    """
    return [array(one) if isinstance(one, (bool, int, float)) else as_value(one) for one in args]


class Executable:
    """A compiled program of the functional door."""

    def __init__(self, mod: Any) -> None:
        core = getattr(mod, "mod", mod)
        if not isinstance(core, Compiled):
            raise TypeMismatchError(
                f"an executable is what relay.vm.compile gives, got {type(mod).__name__}"
            )
        self._core = core

    @property
    def mod(self) -> Compiled:
        """The compiled program."""
        return self._core

    module = mod

    # Saving

    def save(self) -> tuple[bytearray, Compiled]:
        """Return the bytecode, and the compiled kernels, which have ``export_library``."""
        metadata = self._core.metadata
        inside = {key: metadata[key] for key in _IN_CODE if key in metadata}
        text = json.dumps({**inside, "belongs_to": _digest(_of_lib(metadata))}, sort_keys=True)
        head = f"{_MAGIC} {hashlib.sha256(text.encode()).hexdigest()}\n"
        return bytearray((head + text).encode()), self.lib

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Any) -> Executable:
        """Return the executable of bytecode and the compiled kernels that belong to it.

        Raises ArtifactError for bytecode that was changed, or that belongs to other kernels.
        """
        head, _, text = bytes(bytecode).partition(b"\n")
        if head.split(b" ")[0] != _MAGIC.encode():
            raise ArtifactError(
                "this is no bytecode of the virtual machine",
                notes=("code, lib = exe.save() gives it",),
            )
        if head != f"{_MAGIC} {hashlib.sha256(text).hexdigest()}".encode():
            raise ArtifactError("the bytecode was changed or cut off", notes=("save it again",))
        code = _code_of(text)
        core = getattr(lib, "mod", lib)
        if not isinstance(core, Compiled):
            raise TypeMismatchError(
                f"the kernels are what exe.lib gives, or what load_module loads, got "
                f"{type(lib).__name__}"
            )
        if code.pop("belongs_to") != _digest(_of_lib(core.metadata)):
            raise ArtifactError(
                "the bytecode does not belong to these kernels",
                notes=("load the library that was saved with it",),
            )
        return Executable(with_parts(core, {**core.metadata, **code}))

    @property
    def lib(self) -> Compiled:
        """The compiled kernels."""
        return with_parts(self._core, _of_lib(self._core.metadata))

    # Seeing

    @property
    def stats(self) -> str:
        """A summary: functions, constants, code."""
        return self._core.stats()

    @property
    def bytecode(self) -> str:
        """The functions as text: steps, or that a function is native code."""
        programs = self._core.metadata.get("programs", {})
        native = [f"{name}: native code" for name in self.globals if name not in programs]
        return "\n\n".join([*native, *[program_text(*one) for one in programs.items()]])

    @property
    def primitive_ops(self) -> list[str]:
        """The names of the kernels."""
        return list(self._core.metadata.get("kernels", ()))

    @property
    def primitives(self) -> str:
        """The kernels as text, numbered."""
        return "\n".join([f"[{at}] {name}" for at, name in enumerate(self.primitive_ops)])

    @property
    def constants(self) -> str:
        """The constants as text, numbered."""
        rows = self._core.constants.items()
        return "\n".join(
            [f"[{at}] {name}: {one.dtype} {one.shape}" for at, (name, one) in enumerate(rows)]
        )

    @property
    def virtual_devices(self) -> str:
        """The devices as text; there is one."""
        kind = self._core.device_type
        return f"[0] {kind}(0), target {self._core.metadata.get('target', '')}"

    @property
    def globals(self) -> list[str]:
        """The names of the functions that can be called."""
        return self._core.function_names

    def get_function_params(self, func_name: str) -> list[str]:
        """Return the names of a function's parameters."""
        return list(self._core.get_function(func_name).input_names)

    def get_function(self, name: str) -> Any:
        """Return a function."""
        return self._core.get_function(name)

    def __getitem__(self, name: str) -> Any:
        return self._core.get_function(name)

    # Constants that are given later

    def get_late_bound_consts(self, byte_limit: int = 0) -> dict[str, NDArray]:
        """Take the constants of at least so many bytes out of the executable, which runs again when
        they are loaded; return them by name.
        """
        taken = {
            name: value
            for name, value in self._core.constants.items()
            if value.nbytes >= byte_limit
        }
        metadata = dict(self._core.metadata)
        late = dict(metadata.get("late_constants", {}))
        late |= {name: [str(one.dtype), list(one.shape)] for name, one in taken.items()}
        kept = {name: one for name, one in self._core.constants.items() if name not in taken}
        self._core = with_parts(self._core, {**metadata, "late_constants": late}, kept)
        return {name: array(value) for name, value in taken.items()}

    def move_late_bound_consts(self, path: PathLike, byte_limit: int = 0) -> None:
        """Move the constants of at least so many bytes to a file."""
        save_param_dict_to_file(self.get_late_bound_consts(byte_limit), path)

    def load_late_bound_consts(self, path: PathLike) -> None:
        """Take constants from a file that `move_late_bound_consts` wrote."""
        self.load_late_bound_consts_from_map(load_param_dict_from_file(path))

    def load_late_bound_consts_from_map(self, map: Mapping[str, Any]) -> None:
        """Take constants by name; all that are missing must be there."""
        metadata = dict(self._core.metadata)
        late = metadata.pop("late_constants", {})
        values: dict[str, Any] = dict(self._core.constants)
        for name, (dtype, shape) in late.items():
            if name not in map:
                raise UnknownNameError(f"the constant '{name}' is not among those that were given")
            value = array(map[name]).numpy()
            if str(value.dtype) != dtype or list(value.shape) != list(shape):
                raise TypeMismatchError(
                    f"the constant '{name}' is {value.dtype} {value.shape}, expected {dtype} "
                    f"{tuple(shape)}"
                )
            values[name] = value
        self._core = with_parts(self._core, metadata, values)


def _code_of(text: bytes) -> dict[str, Any]:
    """Read the JSON of bytecode."""
    try:
        code = json.loads(text)
        unknown = set(code) - {*_IN_CODE, "belongs_to"}
        if unknown or "belongs_to" not in code or not isinstance(code, dict):
            raise ValueError(f"unknown entries: {sorted(unknown)}")
    except (ValueError, TypeError, RecursionError) as error:
        raise ArtifactError("this is no bytecode of the virtual machine") from error
    return code


def _of_lib(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of the kernels without the programs."""
    return {key: value for key, value in metadata.items() if key not in _IN_CODE}


def _digest(metadata: Mapping[str, Any]) -> str:
    """Return the digest of what kernels and programs have to agree on."""
    shared = [metadata.get("functions"), list(metadata.get("constants", ()))]
    text = json.dumps(shared, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class VirtualMachine(Machine):
    """Runs the functions of an executable: ``vm.run(x)``, ``vm.invoke("main", x)``.

    ``memory_cfg`` is "naive" or "pooled", or a mapping of devices to them: memory is planned when a
    program is compiled, so both run alike. Inputs that are elsewhere are copied to the device.
    """

    copies_inputs = True

    def __init__(
        self,
        exe: Any,
        device: Device | Sequence[Device] | None = None,
        memory_cfg: str | Mapping[Any, str] | None = None,
    ) -> None:
        devices = [device] if isinstance(device, Device) else list(device or ())
        for one in devices:
            if not isinstance(one, Device):
                raise TypeMismatchError(f"a device is needed, got {type(one).__name__}")
        local = [one for one in devices if one.device_type < RPC_SESS_MASK]
        if devices and not local:
            raise UnsupportedError(
                f"this program is on this machine, it does not run on {devices[0]}",
                notes=("export its library, upload it to the session, and load it there",),
            )
        chosen = memory_cfg.values() if isinstance(memory_cfg, Mapping) else [memory_cfg]
        for word in chosen:
            if word not in (None, "naive", "pooled"):
                raise ConfigError(f"memory_cfg is 'naive' or 'pooled', got {word!r}")
        super().__init__(exe, local or None)
        self._last = ""

    def _input_names(self, func_name: str) -> list[str]:
        function: Any = self[func_name]
        return list(function.input_names)

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function; without arguments, with those of `set_input`."""
        if not args and not kwargs and func_name in self._inputs:
            values, named = self._inputs[func_name]
            return self[func_name](*values, **named)
        return self[func_name](*convert(args), **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``main``."""
        return self.invoke("main", *args, **kwargs)

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set one input, by its number or name and its value, or by keyword."""
        if (len(args), len(kwargs)) not in ((2, 0), (0, 1)):
            raise TypeMismatchError(
                "set_one_input takes a number or name and a value, or one keyword",
                notes=('vm.set_one_input("main", "x", value)',),
            )
        key, value = args if args else next(iter(kwargs.items()))
        names = self._input_names(func_name)
        name = names[key] if isinstance(key, int) and 0 <= key < len(names) else key
        if name not in names:
            raise UnknownNameError(
                f"'{func_name}' has no input {name!r}", notes=("it has: " + ", ".join(names),)
            )
        values, named = self._inputs.get(func_name, ((), {}))
        given = {**dict(zip(names, values)), **named, name: as_value(value)}
        self._inputs[func_name] = ((), given)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Call a function and keep its result for `get_outputs`."""
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        elif func_name not in self._inputs and not self._input_names(func_name):
            self.set_input(func_name)
        super().invoke_stateful(func_name)
        self._last = func_name

    def get_outputs(self, func_name: str = "") -> Any:
        """Return the results of the last `invoke_stateful` as a list."""
        found = super().get_outputs(func_name or self._last)
        return list(found) if type(found) is tuple else [found]

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any], output_args: Sequence[Any]
    ) -> None:
        """Call a function and copy its results to tensors."""
        found = self[func_name](**{key: as_value(one) for key, one in input_args.items()})
        results = list(found) if type(found) is tuple else [found]
        if len(results) != len(output_args):
            raise TypeMismatchError(
                f"'{func_name}' has {len(results)} results, {len(output_args)} tensors are given"
            )
        for target, result in zip(output_args, results):
            target.copyfrom(result)

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Return the position of an input, or -1 if there is none of that name."""
        names = self._input_names(func_name)
        return names.index(input_name) if input_name in names else -1

    def benchmark(
        self,
        device: Any,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Measure a function on arguments, or those of `set_input`: on a device without the copies
        of arguments to it, unless ``end_to_end``, which copies results back as well.
        """
        values: list[Any] = convert(args)
        if not end_to_end:
            values = [_there(one, self.device) for one in values]

        def call() -> None:
            result = self.invoke(func_name, *values, **kwargs)
            if end_to_end:
                _there(result, cpu())

        measure = evaluator(
            call,
            device,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms or 0,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )
        return measure()


def _there(value: Any, device: Device | None) -> Any:
    """Return a value whose tensors are on a device."""
    if type(value) is tuple:
        return tuple([_there(one, device) for one in value])
    is_elsewhere = isinstance(value, NDArray) and device is not None and value.device != device
    return array(value, device) if is_elsewhere else value
