"""Shows programs of steps (`runtime.program`) as text.

main(x: tensor int32 ()):  3 registers
    r1 = part main__part0(r0)
    if r1:
        r2 = call map(r0)
    else:
        r2 = r0
    return r2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["program_text"]

Data = Mapping[str, Any]


def program_text(name: str, data: Data) -> str:
    """Return the text of a program."""
    params = [f"{one['name']}: {_type(one['type'])}" for one in data["params"]]
    head = f"{name}({', '.join(params)}):  {data['registers']} registers"
    body = data["body"]
    lines = [head, *_lines(body["steps"], 1), f"    return {_value(body['value'])}"]
    return "\n".join(lines)


def _lines(steps: Sequence[Data], depth: int) -> list[str]:
    """Return the lines of steps; choices are rows of the same list, so depth costs no stack."""
    found: list[str] = []
    pending: list[Any] = [(step, depth) for step in reversed(steps)]
    while pending:
        step, at = pending.pop()
        if isinstance(step, str):
            found.append("    " * at + step)
        elif step["do"] == "if":
            found.append("    " * at + f"if {_value(step['condition'])}:")
            ends = [f"r{step['to']} = {_value(step[which]['value'])}" for which in ("then", "else")]
            pending.append((ends[1], at + 1))
            pending += [(one, at + 1) for one in reversed(step["else"]["steps"])]
            pending += [("else:", at), (ends[0], at + 1)]
            pending += [(one, at + 1) for one in reversed(step["then"]["steps"])]
        else:
            found.append("    " * at + _step(step))
    return found


def _step(step: Data) -> str:
    if step["do"] in ("goto", "branch"):
        condition = f"unless {_value(step['condition'])} " if step["do"] == "branch" else ""
        return f"{condition}goto {step['by']:+d}"
    if step["do"] == "return":
        return f"return {_value(step['value'])}"
    kind, to = step["do"], step["to"]
    targets = ", ".join([f"r{one}" for one in (to if isinstance(to, (list, tuple)) else [to])])
    checked = f"  # {_type(step['type'])}" if "type" in step else ""
    if kind == "value":
        return f"{targets} = {_value(step['value'])}{checked}"
    called = step.get("function") or step.get("name") or _value(step["callee"])
    arguments = _value(step["arguments"])
    if not arguments.startswith("("):
        arguments = f"(*{arguments})"
    return f"{targets} = {kind} {called}{arguments}{checked}"


def _value(data: Data) -> str:
    ((kind, *_), content) = tuple(data), next(iter(data.values()))
    if kind == "register":
        return f"r{content}"
    if kind == "field":
        return f"{_value(content)}.{data['index']}"
    if kind == "tuple":
        return f"({', '.join([_value(one) for one in content])})"
    if kind == "shape":
        return f"shape[{', '.join([_size(one) for one in content])}]"
    if kind == "number":
        return _size(content)
    if kind == "text":
        return repr(content)
    if kind == "nothing":
        return "nothing"
    return str(content) if kind in ("function", "registered", "dtype") else f"{kind}_{content}"


def _size(data: Any) -> str:
    if isinstance(data, (list, tuple)):
        return f"{data[0]}({', '.join([_size(one) for one in data[1:]])})"
    return str(data)


def _type(data: Data) -> str:
    kind = data["kind"]
    if kind == "tuple":
        return f"({', '.join([_type(one) for one in data['fields']])})"
    words = [kind, *([data["dtype"]] if data.get("dtype") else [])]
    if data.get("shape") is not None:
        words.append(f"({', '.join([_size(one) for one in data['shape']])})")
    elif "ndim" in data:
        words.append(f"of rank {data['ndim']}" if data["ndim"] >= 0 else "of any rank")
    return " ".join(words)
