"""Models of other Python packages that `tilesmith.compile` is given: torch's exported programs, and
advice for what has to be exported or imported first.

The packages are not imported here: a model's class tells where it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import IntImm, IRModule
from tilesmith.ir import Var as SymbolicVar
from tilesmith.support.errors import FrontendError

__all__ = ["advice_for_object", "import_exported_program", "is_exported_program"]


def _classes(model: Any) -> list[tuple[str, str]]:
    """Return (package, class) for the classes that an object is of."""
    return [(one.__module__.partition(".")[0], one.__name__) for one in type(model).__mro__]


def is_exported_program(model: Any) -> bool:
    """Return whether a model is a ``torch.export.ExportedProgram``."""
    return ("torch", "ExportedProgram") in _classes(model)


_EXPORT = "export it first: tilesmith.compile(torch.export.export(model.eval(), example_inputs))"


def advice_for_object(model: Any) -> tuple[str, ...]:
    """Return what to do with an object that is a model of torch or keras, nothing for others."""
    classes = _classes(model)
    if ("torch", "ScriptModule") in classes:
        return (
            "TorchScript is imported by relay.frontend.from_pytorch(model, input_infos)",
            "or export the module that it was made of: "
            "torch.export.export(model.eval(), example_inputs)",
        )
    if ("torch", "GraphModule") in classes:
        return (_EXPORT, "or import its graph: relax.frontend.torch.from_fx(model, input_info)")
    if ("torch", "Module") in classes:
        return (_EXPORT, 'torch.compile(model, backend="tilesmith") compiles it where it is called')
    if any(package in ("keras", "tf_keras") for package, _ in classes):
        return (
            "import it first: mod, params = relay.frontend.from_keras(model, shapes); "
            "relay.build(mod, target, params=params) compiles it",
        )
    return ()


def import_exported_program(program: Any, shapes: Mapping[str, Any] | None = None) -> IRModule:
    """Import a program; a single tensor that the model returns is returned without a tuple.

    ``shapes`` fixes sizes that were exported as dynamic.
    """
    from tilesmith.relax.frontend.torch import from_exported_program

    module = from_exported_program(
        program, unwrap_unit_return_tuple=program.call_spec.out_spec.is_leaf()
    )
    return _with_sizes(module, shapes) if shapes else module


def _with_sizes(module: IRModule, shapes: Mapping[str, Any]) -> IRModule:
    """Return the module with symbolic sizes replaced by those of the given shapes."""
    from tilesmith.relax.relations import sizes_of

    function: Any = module["main"]
    inputs = {param.name_hint: param.struct_info for param in function.params}
    sizes: dict[SymbolicVar, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            raise FrontendError(
                f"input_shapes names '{name}', which is not an input of the model",
                notes=("inputs: " + ", ".join(inputs),),
            )
        declared: list[Any] = list(sizes_of(inputs[name]) or [])
        if len(declared) != len(shape):
            raise FrontendError(
                f"input_shapes gives {len(shape)} sizes for '{name}', the model has {len(declared)}"
            )
        for axis, (known, size) in enumerate(zip(declared, shape)):
            if isinstance(size, int):
                _fix(sizes, known, size, f"axis {axis} of '{name}'")
    _check_bounds(function, sizes)
    return IRModule({**module.functions, "main": function.bind_symbolic_vars(sizes)})


def _fix(sizes: dict[SymbolicVar, int], known: Any, size: int, where: str) -> None:
    if isinstance(known, SymbolicVar):
        wanted: Any = sizes.setdefault(known, size)
    else:
        wanted = int(known.value) if isinstance(known, IntImm) else known
    if not isinstance(wanted, int) or wanted != size:
        raise FrontendError(
            f"input_shapes says that {where} is {size}, the model says {wanted}",
            notes=("torch.export.export keeps sizes open that dynamic_shapes names",),
        )


def _check_bounds(function: Any, sizes: Mapping[SymbolicVar, int]) -> None:
    """Raise FrontendError if a size is outside of the range that it was exported for."""
    lower = function.attrs.get("tir_var_lower_bound", {})
    upper = function.attrs.get("tir_var_upper_bound", {})
    for variable, size in sizes.items():
        least, most = lower.get(variable.name), upper.get(variable.name)
        if (least is not None and size < int(least)) or (most is not None and size > int(most)):
            raise FrontendError(
                f"input_shapes gives the size {size}, the model was exported for sizes "
                f"{0 if least is None else least} to {'any' if most is None else most}",
                notes=("torch.export.Dim(name, min=, max=) states the range",),
            )
