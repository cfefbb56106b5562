"""Builds programs of the virtual machine by hand, instruction for instruction.

    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=2):
        ib.emit_call("add_tensors", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    vm = relax.VirtualMachine(ib.get(), cpu())

A call names a function of the builder, or one that is registered (``register_func``) when the
program runs. Inputs are in the first registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Any

import numpy

from tilesmith.runtime.container import ShapeTuple
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.executable import Executable
from tilesmith.runtime.ndarray import NDArray
from tilesmith.support.errors import DiagnosticError, TypeMismatchError, UnsupportedError

__all__ = ["ExecBuilder", "SpecialReg", "VMFuncKind", "VMFuncScope"]


class SpecialReg(IntEnum):
    """Registers that hold no value of the program."""

    VOID_ARG = 0
    VM_STATE = 1


class VMFuncKind(IntEnum):
    """What a function is: registered, or one of the program."""

    PACKED_FUNC = 0
    VM_FUNC = 1


@dataclass(frozen=True)
class Operand:
    """An operand of an instruction: a register ("r"), a number ("imm"), a constant ("c"), a
    function ("f"), or a special register.
    """

    kind: str
    value: Any


class VMFuncScope:
    """``with ib.function(...)``: the function under construction."""

    def __init__(self, exit_callback: Callable[[], None]) -> None:
        self.exit_callback = exit_callback

    def __enter__(self) -> VMFuncScope:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.exit_callback()


class _Function:
    """A function under construction."""

    def __init__(self, name: str, params: list[str]) -> None:
        self.name = name
        self.params = params
        self.steps: list[dict[str, Any]] = []
        self.written = set(range(len(params)))
        self.read: set[int] = set()


class ExecBuilder:
    """Builds an executable of instructions; see the module's text."""

    def __init__(self) -> None:
        self._functions: dict[str, _Function] = {}
        self._declared: dict[str, VMFuncKind] = {}
        self._current: _Function | None = None
        self._constants: list[Any] = []

    # Operands

    def r(self, idx: int) -> Operand:
        """Return a register."""
        if type(idx) is not int or idx < 0:
            raise TypeMismatchError(f"a register has a number from 0 on, got {idx!r}")
        return Operand("r", idx)

    def imm(self, value: int) -> Operand:
        """Return a number as an operand."""
        return Operand("imm", int(value))

    def c(self, idx: int) -> Operand:
        """Return a constant that `convert_constant` has made, by its number."""
        if not 0 <= idx < len(self._constants):
            raise TypeMismatchError(f"there are {len(self._constants)} constants, none is {idx}")
        return Operand("c", idx)

    def f(self, name: str) -> Operand:
        """Return a function as an operand."""
        self._declared.setdefault(name, VMFuncKind.PACKED_FUNC)
        return Operand("f", name)

    def void_arg(self) -> Operand:
        """Return the operand that stands for no value."""
        return Operand("special", SpecialReg.VOID_ARG)

    def vm_state(self) -> Operand:
        """Return the operand for the machine's state, which builtin functions expect. Nothing needs
        it here: they get None.
        """
        return Operand("special", SpecialReg.VM_STATE)

    def convert_constant(self, const: Any) -> Operand:
        """Add a constant (a tensor, a shape, a text, a dtype, a number) and return its operand."""
        if isinstance(const, Operand):
            return const
        if isinstance(const, (numpy.ndarray, numpy.generic)) or hasattr(const, "__dlpack__"):
            value: Any = const.numpy() if isinstance(const, NDArray) else numpy.array(const)
        elif isinstance(const, (bool, int, float, DataType, str)):
            value = const
        elif isinstance(const, (list, tuple)):
            value = ShapeTuple(const)
        else:
            raise TypeMismatchError(
                "a constant is a tensor, a shape, a text, a dtype or a number, got "
                f"{type(const).__name__}"
            )
        self._constants.append(value)
        return self.c(len(self._constants) - 1)

    # Functions

    def declare_function(self, func_name: str, kind: VMFuncKind = VMFuncKind.PACKED_FUNC) -> None:
        """Declare a function before it is built, or one that will be registered."""
        self._declared[func_name] = VMFuncKind(kind)

    def function(
        self, func_name: str, num_inputs: int | None = 0, param_names: list[str] | None = None
    ) -> VMFuncScope:
        """Return the scope in which a function is built."""
        if self._current is not None:
            raise DiagnosticError(
                f"the function '{self._current.name}' is not finished",
                notes=("leave its `with` block first",),
            )
        if func_name in self._functions:
            raise DiagnosticError(f"the function '{func_name}' is there already")
        count = int(num_inputs or 0) or len(param_names or ())
        names = param_names or [f"arg{number}" for number in range(count)]
        if len(names) != count:
            raise TypeMismatchError(f"'{func_name}' has {count} inputs, got {len(names)} names")
        self._current = self._functions[func_name] = _Function(func_name, list(names))
        self._declared[func_name] = VMFuncKind.VM_FUNC
        return VMFuncScope(self._finish)

    def _finish(self) -> None:
        function, self._current = self._open(), None
        missing = sorted(function.read - function.written)
        if missing:
            raise DiagnosticError(
                f"'{function.name}' reads registers that nothing writes: "
                f"{', '.join([f'r{one}' for one in missing])}"
            )
        if not any(step["do"] == "return" for step in function.steps):
            raise DiagnosticError(
                f"the function '{function.name}' does not return", notes=("call emit_ret",)
            )

    def _open(self) -> _Function:
        if self._current is None:
            raise DiagnosticError(
                "an instruction needs a function",
                notes=("write `with ib.function(name, num_inputs):` around it",),
            )
        return self._current

    # Instructions

    def emit_call(
        self, name: str, args: Sequence[Any] | None = None, dst: Operand | None = None
    ) -> None:
        """Call a function; its result goes to a register, or nowhere."""
        function = self._open()
        self._declared.setdefault(name, VMFuncKind.PACKED_FUNC)
        operands = [self.convert_constant(one) for one in args or ()]
        fields = [self._value(function, one) for one in operands]
        place = None
        if dst is not None and dst.kind != "special":
            place = self._register(dst)
            function.written.add(place)
        function.steps.append(
            {"do": "call", "callee": name, "arguments": {"tuple": fields}, "to": place}
        )

    def emit_ret(self, result: Operand) -> None:
        """End the function with a result."""
        function = self._open()
        function.steps.append({"do": "return", "value": self._value(function, result)})

    def emit_goto(self, pc_offset: int) -> None:
        """Continue with another instruction, counted from this one."""
        self._open().steps.append({"do": "goto", "by": int(pc_offset)})

    def emit_if(self, cond: Operand, false_offset: int) -> None:
        """Continue with the next instruction if a condition holds, else with the one at an offset
        from this.
        """
        function = self._open()
        function.steps.append(
            {"do": "branch", "condition": self._value(function, cond), "by": int(false_offset)}
        )

    def _register(self, operand: Operand) -> int:
        if not isinstance(operand, Operand) or operand.kind != "r":
            raise TypeMismatchError(f"a register is needed, as ib.r(0) gives it, got {operand!r}")
        return int(operand.value)

    def _value(self, function: _Function, operand: Operand) -> dict[str, Any]:
        """Return an operand as a program has it."""
        kind, value = operand.kind, operand.value
        if kind == "r":
            function.read.add(value)
            return {"register": value}
        if kind == "imm":
            return {"number": value}
        if kind == "special":
            return {"nothing": int(value)}
        return {"callee": value} if kind == "f" else {"constant": value}

    # The executable

    def get(self) -> Executable:
        """Return the executable."""
        if self._current is not None:
            raise DiagnosticError(f"the function '{self._current.name}' is not finished")
        undefined = [
            name
            for name, kind in self._declared.items()
            if kind is VMFuncKind.VM_FUNC and name not in self._functions
        ]
        if undefined:
            raise UnsupportedError(
                f"these functions are declared, but not built: {', '.join(undefined)}"
            )
        tensors = {
            f"constant{number}": value
            for number, value in enumerate(self._constants)
            if isinstance(value, numpy.ndarray)
        }
        metadata = {
            "functions": {},
            "constants": list(tensors),
            "target": "",
            "programs": {name: self._program(one) for name, one in self._functions.items()},
            "parts": [],
        }
        return Executable(metadata, [], tensors)

    def _program(self, function: _Function) -> dict[str, Any]:
        steps = [self._resolved(step) for step in function.steps]
        # one further register takes the results that go nowhere
        count = max([-1, *function.written, *function.read]) + 1
        for step in steps:
            if step["do"] == "call" and step["to"] is None:
                step["to"] = count
        return {
            "params": [{"name": name, "type": {"kind": "object"}} for name in function.params],
            "registers": count + 1,
            "body": {"steps": steps, "value": {"nothing": 0}},
            "result": {"kind": "object"},
        }

    def _resolved(self, step: dict[str, Any]) -> dict[str, Any]:
        """Return a step with what its operands mean in the executable."""
        made = dict(step)
        if "callee" in made:
            made["callee"] = self._callee(made["callee"])
        for key in ("arguments", "value", "condition"):
            if key in made:
                made[key] = self._meaning(made[key])
        return made

    def _callee(self, name: str) -> dict[str, Any]:
        return {"function" if name in self._functions else "registered": name}

    def _meaning(self, value: dict[str, Any]) -> dict[str, Any]:
        if "tuple" in value:
            return {"tuple": [self._meaning(one) for one in value["tuple"]]}
        if "callee" in value:
            return self._callee(value["callee"])
        if "constant" not in value:
            return value
        constant = self._constants[value["constant"]]
        if isinstance(constant, numpy.ndarray):
            before = self._constants[: value["constant"]]
            return {"constant": sum([isinstance(one, numpy.ndarray) for one in before])}
        if isinstance(constant, DataType):
            return {"dtype": str(constant)}
        if isinstance(constant, str):
            return {"text": constant}
        if isinstance(constant, ShapeTuple):
            return {"shape": list(constant)}
        return {"number": constant}
