"""Writes the stub files (`__init__.pyi`) of packages whose names are resolved at first use.

    python tools/write_stubs.py

The tables in the packages are the source; editors and type checkers read the stubs. The stub of
``T`` (``tilesmith.script.tir``) lists its words, many of which are made when it is imported; the
stub of the methods of schedules lists those made from the declarations of primitives, the stubs of
``relax.op`` and of its namespaces the functions made from the records of operators.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = ("tilesmith", "tilesmith.rpc", "tilesmith.runtime")
WORDS = "tilesmith.script.tir"
METHODS = "tilesmith.tir.schedule.methods"
OPERATORS = {
    "tilesmith.relax.op": "",
    "tilesmith.relax.op.nn": "nn.",
    "tilesmith.relax.op.builtin": "builtin.",
}
"""Modules whose functions are made from records, with the prefix of the operators' names."""
OPERATORS_HEAD = """from collections.abc import Callable
from typing import Any, ParamSpec, Protocol

from tilesmith.ir import Op

_P = ParamSpec("_P")

class _Operator(Protocol[_P]):
    op: Op
    __name__: str
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Call: ...

def _operator(function: Callable[_P, Call]) -> _Operator[_P]: ...
"""
ORIGINS = (
    "collections.abc", "typing", "tilesmith.ir", "tilesmith.tir", "tilesmith.tir.schedule",
    "tilesmith.tir.schedule.variables",
)  # fmt: skip
"""Where the types in the signatures of schedule primitives come from."""


def stub_path(package: str) -> Path:
    """Return the path of the stub of a package."""
    return Path(importlib.import_module(package).__file__ or "").with_suffix(".pyi")


def stub_text(package: str) -> str:
    """Return the stub of a package: one import for each row of its table PUBLIC."""
    table: dict[str, str] = importlib.import_module(package).PUBLIC
    lines = ['"""Made by tools/write_stubs.py from the table PUBLIC; do not edit."""', ""]
    for name, path in sorted(table.items(), key=lambda row: (row[1].partition(":")[0], row[0])):
        module, _, attribute = path.partition(":")
        if not attribute:
            module, _, attribute = module.rpartition(".")
        lines.append(f"from {module} import {attribute} as {name}")
    lines += ["", "PUBLIC: dict[str, str]"]
    if package == "tilesmith":
        lines.append("__version__: str")
    return "\n".join(lines) + "\n"


def words_text() -> str:
    """Return the stub of ``T``: its own functions with their signatures, the rest as imports."""
    module = importlib.import_module(WORDS)
    imports: set[tuple[str, str, str]] = set()
    values, functions = [], []
    for name in sorted(vars(module)):
        value = getattr(module, name)
        if name.startswith("_") or isinstance(value, ModuleType) or name == "annotations":
            continue
        if name == "Any":  # in the stub the name means any type, as in the file itself
            continue
        if inspect.isfunction(value) and value.__module__ == WORDS:
            functions.append(_function_stub(name, value, module, imports))
        elif inspect.isclass(value) and value.__module__ == WORDS:
            functions.append(_class_stub(name, value, module, imports))
        elif "<locals>" in getattr(value, "__qualname__", ""):
            imports.add(("typing", "Any", "Any"))
            values.append(f"{name}: Any")
        elif hasattr(value, "__qualname__"):
            imports.add((value.__module__, value.__qualname__, name))
        else:
            imports.add((type(value).__module__, type(value).__name__, "_" + type(value).__name__))
            values.append(f"{name}: _{type(value).__name__}")
    lines = [
        '"""Made by tools/write_stubs.py from the words of the module; do not edit."""',
        "# fmt: off",
        "",
    ]
    for origin, attribute, name in sorted(imports):
        lines.append(f"from {origin} import {attribute} as {name}")
    return "\n".join([*lines, "", *values, "", *functions]).rstrip() + "\n"


def methods_text() -> str:
    """Return the stub of the methods of schedules: one for each declared primitive."""
    from tilesmith.tir.schedule.schedule import Schedule

    base = importlib.import_module(METHODS).PrimitiveMethods
    attributes = [f"    {name}: {written}" for name, written in base.__annotations__.items()]
    methods = []
    for name in sorted([name for name in vars(base) if not name.startswith("_")]):
        method = getattr(Schedule, name)
        methods.append(f"    def {name}{_signature(method)}:\n{_first_line(method, 8)}")
    body = "\n".join([f"class {base.__name__}:", *attributes, *methods])
    imports = []
    for word in sorted(set(re.findall(r"(?<![\w\".])[A-Z]\w+", re.sub(r'""".*"""', "", body)))):
        modules = [importlib.import_module(origin) for origin in ORIGINS]
        found = next((module for module in modules if hasattr(module, word)), None)
        if found is not None and word != base.__name__:
            value = getattr(found, word)
            # The module of a class itself: type checkers do not see through a door.
            is_own = inspect.isclass(value) and value.__module__.startswith("tilesmith.")
            origin = value.__module__ if is_own else found.__name__
            imports.append(f"from {origin} import {word} as {word}")
    head = '"""Made by tools/write_stubs.py from the declared primitives; do not edit."""'
    return "\n".join([head, "# fmt: off", "", "import random", *imports, "", body]) + "\n"


def operators_text(module: str) -> str:
    """Return the stub of a module of operators: the function of each record of its namespace."""
    from tilesmith.relax.op.declaration import functions

    imports = {("tilesmith.relax.expr", "Call", "Call")}
    written = []
    for name, function in sorted(functions(OPERATORS[module]).items()):
        signature = _typed_signature(function)
        _note_types(
            signature, sys.modules[inspect.unwrap(function).__globals__["__name__"]], imports
        )
        decorator = "@_operator\n" if hasattr(function, "op") else ""
        written.append(f"{decorator}def {name}{signature}:\n{_first_line(function, 4)}\n")
    imports -= {("typing", "Any", "Any")}
    if module == "tilesmith.relax.op":
        others = ("builtin", "grad", "image", "memory", "nn", "vision")
        imports |= {(module, other, other) for other in others}
        imports |= {("tilesmith.relax.spec", "OpSpec", "OpSpec")}
        imports |= {("tilesmith.relax.op.declaration", "define", "define")}
    head = '"""Made by tools/write_stubs.py from the records of operators; do not edit."""'
    lines = [f"from {origin} import {attribute} as {name}" for origin, attribute, name
             in sorted(imports)]  # fmt: skip
    return "\n".join([head, "# fmt: off", "", *lines, OPERATORS_HEAD, *written])


def _typed_signature(function: Any) -> str:
    """Return a signature in which each parameter has a type, and each default can be read back."""
    signature = inspect.signature(function)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.annotation is parameter.empty:
            parameter = parameter.replace(annotation="Any")
        if isinstance(parameter.default, float) and not math.isfinite(parameter.default):
            parameter = parameter.replace(default=...)
        parameters.append(parameter)
    result = signature.return_annotation
    result = "Call" if result is signature.empty else result
    signature = signature.replace(parameters=parameters, return_annotation=result)
    return _unquoted(signature).replace("= Ellipsis", "= ...")


def _function_stub(name: str, function: Any, module: Any, imports: set) -> str:
    """Return ``def name(parameters) -> result``, with the first line of its docstring."""
    signature = _signature(function)
    _note_types(signature, module, imports)
    return f"def {name}{signature}:\n{_first_line(function, 4)}\n"


def _class_stub(name: str, cls: type, module: Any, imports: set) -> str:
    signature = _signature(cls.__init__)
    _note_types(signature, module, imports)
    return f"class {name}:\n{_first_line(cls, 4)}\n    def __init__{signature}: ...\n"


def _signature(function: Any) -> str:
    """Return a signature whose annotations are not quoted."""
    return _unquoted(inspect.signature(function))


def _unquoted(signature: inspect.Signature) -> str:
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature))


def _first_line(thing: Any, indent: int) -> str:
    return " " * indent + '"""' + (inspect.getdoc(thing) or "").split("\n")[0] + '"""'


def _note_types(signature: str, module: Any, imports: set) -> None:
    """Import what the annotations of a signature name."""
    for written in re.findall(r"(?:: |-> |\| |\[|, )([A-Z]\w+)", signature):
        value = getattr(module, written, None)
        if written == "Any":
            imports.add(("typing", "Any", "Any"))
        elif inspect.isclass(value):
            imports.add((value.__module__, value.__qualname__, written))
        elif value is not None and hasattr(value, "__origin__"):
            imports.add(("collections.abc", written, written))


def main() -> None:
    """Write all stubs."""
    sys.path.insert(0, str(Path(__file__).parent.parent))  # those of the tree that this file is in
    texts = {stub_path(package): stub_text(package) for package in PACKAGES}
    texts[stub_path(WORDS)] = words_text()
    texts[stub_path(METHODS)] = methods_text()
    texts.update({stub_path(module): operators_text(module) for module in OPERATORS})
    for path, text in texts.items():
        path.write_text(text)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
