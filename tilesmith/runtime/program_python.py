"""Writes programs that `relax.ExecBuilder` has made as Python code that makes them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.support.errors import UnsupportedError

__all__ = ["program_python"]

Data = Mapping[str, Any]

_JUMPS = ("call", "goto", "branch", "return")


def program_python(programs: Mapping[str, Data], constants: Mapping[str, Any]) -> str:
    """Return the Python code of programs of instructions; their constants are written as arrays.

    Raises UnsupportedError for programs of other steps, which have no such form.
    """
    lines = ["import numpy", "from tilesmith import relax", "", "ib = relax.ExecBuilder()"]
    for number, array in enumerate(constants.values()):
        lines.append(f"constant{number} = numpy.array({array.tolist()!r}, {str(array.dtype)!r})")
    for name, program in programs.items():
        params = [one["name"] for one in program["params"]]
        lines.append(f"with ib.function({name!r}, num_inputs={len(params)}, param_names={params}):")
        for step in program["body"]["steps"]:
            if step["do"] not in _JUMPS:
                raise UnsupportedError(
                    f"'{name}' has steps that relax.ExecBuilder does not make: {step['do']}",
                    notes=("as_text() shows them",),
                )
            lines.append("    " + _instruction(step))
    lines += ["executable = ib.get()", ""]
    return "\n".join(lines)


def _instruction(step: Data) -> str:
    kind = step["do"]
    if kind == "goto":
        return f"ib.emit_goto({step['by']})"
    if kind == "branch":
        return f"ib.emit_if({_operand(step['condition'])}, {step['by']})"
    if kind == "return":
        return f"ib.emit_ret({_operand(step['value'])})"
    (name,) = step["callee"].values()
    arguments = ", ".join([_operand(one) for one in step["arguments"]["tuple"]])
    return f"ib.emit_call({name!r}, args=[{arguments}], dst=ib.r({step['to']}))"


def _operand(value: Data) -> str:
    ((kind, content),) = value.items()
    if kind == "register":
        return f"ib.r({content})"
    if kind in ("function", "registered"):
        return f"ib.f({content!r})"
    if kind == "number" and type(content) is int:
        return f"ib.imm({content})"
    if kind == "nothing":
        return "ib.vm_state()" if content else "ib.void_arg()"
    if kind == "constant":
        return f"ib.convert_constant(constant{content})"
    if kind in ("number", "text", "shape"):
        return f"ib.convert_constant({content!r})"
    if kind == "dtype":
        return f"ib.convert_constant(__import__('tilesmith').DataType({content!r}))"
    raise UnsupportedError(f"the value {value!r} has no form as an operand")
