"""``I``: words for modules, and those that all dialects share.

``from tilesmith.script import ir as I``.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from typing import Any

from tilesmith.ir import DummyGlobalInfo, GlobalVar, IRModule, Range, VDevice
from tilesmith.ir import Op as _Op
from tilesmith.script.builder import Frame, IRBuilder
from tilesmith.script.definitions import parse_definition
from tilesmith.script.parsing import ModuleScope, modules
from tilesmith.support.errors import ScriptError

__all__ = [
    "GlobalVar", "Op", "Range", "array", "current_ir_module", "decl_function", "def_function",
    "dummy_global_info", "ir_module", "lookup_global_info", "lookup_vdevice", "metadata",
    "module_attrs", "module_get_attr", "module_get_attrs", "module_global_infos", "module_in_work",
    "module_set_attr", "vdevice",
]  # fmt: skip


def Op(name: str) -> _Op:
    """Return the operator of that name."""
    return _Op.get(name)


class ModuleFrame(Frame):
    """A module that is being built."""

    def __init__(self) -> None:
        super().__init__()
        self.scope = ModuleScope()

    def take_function(self, name: str, function: Any) -> bool:
        """Add a function that is built inside the module."""
        if not name:
            raise ScriptError("a function of a module needs a name", notes=("call T.func_name",))
        self.scope.functions[name] = function
        return True

    def finish(self) -> None:
        """Make the module from its definitions."""
        made = IRModule({}, None, self.scope.attrs, self.scope.global_infos)
        for name, function in self.scope.functions.items():
            made[self.scope.variables.get(name, name)] = function
        self.builder.result = made


def ir_module(mod: Any = None, check_well_formed: bool = True) -> Any:
    """Parse a class decorated with ``@I.ir_module``; without one, open a frame in plain Python.

    ``check_well_formed``: refuse functions that break the rules, such as undefined variables; the
    parser reads it from the text of the decorator.
    """
    if mod is None and IRBuilder.is_in_scope():
        return ModuleFrame()
    if mod is None:
        return lambda cls: parse_definition(cls, sys._getframe(1))
    return parse_definition(mod, sys._getframe(1))


# Words inside a module. While a class is parsed they act on the parser's module.


def module_in_work() -> ModuleScope | None:
    """Return the module that is being parsed, or built in frames; None outside of one."""
    if modules.stack:
        return modules.stack[-1]
    frame = IRBuilder.current().find_frame(ModuleFrame) if IRBuilder.is_in_scope() else None
    return None if frame is None else frame.scope


def _module(word: str) -> ModuleScope:
    found = module_in_work()
    if found is not None:
        return found
    if "__qualname__" in sys._getframe(2).f_locals:
        # Python runs the body of the class before its decorator parses it: this run has no effect.
        return ModuleScope()
    raise ScriptError(f"I.{word} stands in a module")


def module_attrs(attrs: Mapping[str, Any], allow_overwrite: bool = False) -> None:
    """Set attributes of the module."""
    module = _module("module_attrs")
    for key in attrs:
        if key in module.attrs and not allow_overwrite:
            raise ScriptError(f"the module has the attribute '{key}' already")
    module.attrs.update(attrs)


def module_get_attrs() -> dict[str, Any]:
    """Return the attributes so far."""
    return dict(_module("module_get_attrs").attrs)


def module_get_attr(attr_key: str) -> Any:
    """Return one attribute, or None."""
    return _module("module_get_attr").attrs.get(attr_key)


def module_set_attr(attr_key: str, attr_value: Any, allow_overwrite: bool = False) -> None:
    """Set one attribute."""
    module = _module("module_set_attr")
    if attr_key in module.attrs and not allow_overwrite:
        raise ScriptError(f"the module has the attribute '{attr_key}' already")
    module.attrs[attr_key] = attr_value


def module_global_infos(global_infos: Mapping[str, Any]) -> None:
    """Set lists of global infos by name."""
    module = _module("module_global_infos")
    module.global_infos.update({name: tuple(infos) for name, infos in global_infos.items()})


def dummy_global_info() -> DummyGlobalInfo:
    """Make a fact without content."""
    return DummyGlobalInfo()


def vdevice(target: Any = None, vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """Make a device that tensors live on."""
    return VDevice(target, vdevice_id, memory_scope)


def lookup_vdevice(target_kind: str | None = None, device_index: int = -1) -> VDevice:
    """Return the device of the module with this kind of target (or ``"vdevice"``) and index."""
    devices = _module("lookup_vdevice").global_infos.get("vdevice", ())
    if device_index < 0:
        device_index = 0
    if target_kind not in (None, "vdevice"):
        devices = [d for d in devices if getattr(d.target.kind, "name", None) == target_kind]
    if device_index >= len(devices):
        raise ScriptError(f"the module has no device '{target_kind}:{device_index}'")
    return devices[device_index]


def lookup_global_info(place: str) -> Any:
    """Return the global info of the module at a place, such as "mesh[0]"."""
    name, _, rest = place.partition("[")
    infos = _module("lookup_global_info").global_infos.get(name, ())
    index = rest.rstrip("]")
    if not index.isdigit() or int(index) >= len(infos):
        raise ScriptError(
            f"the module has no global info '{place}'",
            notes=("I.module_global_infos sets lists of them by name",),
        )
    return infos[int(index)]


def current_ir_module() -> ModuleScope:
    """Return the frame of the module that is being written."""
    return _module("current_ir_module")


def decl_function(func_name: str, func_signature: Any = None) -> GlobalVar:
    """Return the variable of a function that is defined later."""
    variable = _module("decl_function").variables.setdefault(func_name, GlobalVar(func_name))
    if func_signature is not None:
        variable.describe(getattr(func_signature, "struct_info", None))
    return variable


def def_function(func_name: str, func: Any) -> None:
    """Define a function."""
    decl_function(func_name, func)
    _module("def_function").functions[func_name] = func


# Large constants.


def array(dtype: str, shape: tuple[int, ...], data: Any) -> Any:
    """Return an array from the base64 of its bytes."""
    import numpy

    from tilesmith.runtime.dtype import DataType

    raw = base64.b64decode(data) if isinstance(data, str) else data
    # Copied, because bytes are read-only and DLPack refuses such arrays.
    return numpy.frombuffer(bytearray(raw), DataType(dtype).numpy()).reshape(shape)


def metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of large constants: lists by kind."""
    return dict(values)
