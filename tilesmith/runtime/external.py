"""The modules that external code generators made for parts of a model.

Code calls a function of such a module by the name "external:KEY:NAME"; the key tells one model from
another. Object code of these modules is linked with the model's own (`Linked`); what else they
consist of is saved in the artifact if the module can be saved (`Module.saved`), and read
back by what is registered for its kind:

    @register_func("runtime.module.loadbinary_mine")       # or READERS.register("mine")
    def load(content): return module_from_functions({...})

Constants that a code generator wants to have kept beside its code (``relay.ext.NAME.
constant_updater``) are handed to the function ``__init_NAME`` of its module before the first call.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.runtime.registry import get_global_func
from tilesmith.support.errors import ArtifactError, UnknownNameError, UnsupportedError
from tilesmith.support.registry import Registry

if TYPE_CHECKING:
    from tilesmith.runtime.library import Library
    from tilesmith.runtime.module import Module

__all__ = ["READERS", "ExternalModules", "find_external", "key_of", "qualified"]

READERS: Registry[Callable[[bytes], Any]] = Registry(
    "kind of saved module",
    {
        "json": "tilesmith.runtime.json_graph",
        "shared_library": "tilesmith.runtime.shared_library",
    },
)
"""Kind of a module → function that makes it of what `Module.saved` gave."""

_PREFIX = "external:"
_MEMBER = "external.{}.bin"
_CONSTANT = "external:constant:"
_live: weakref.WeakValueDictionary[str, ExternalModules] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def qualified(key: str, name: str) -> str:
    """Return the name by which code calls a function of a model's external modules."""
    return f"{_PREFIX}{key}:{name}"


def find_external(name: str) -> Callable[..., Any] | None:
    """Return the function that code calls by a name; None for a name that is not `qualified`."""
    if not name.startswith(_PREFIX):
        return None
    key, _, symbol = name[len(_PREFIX) :].partition(":")
    modules = _live.get(key)
    if modules is None:
        raise UnknownNameError(f"the modules of the model that has '{symbol}' are gone")
    return modules.function(symbol)


class ExternalModules:
    """The external modules of one model; `open` gives the one that is there already.

    ``symbols`` are the names of all functions, ``constants`` has the arrays by name, ``initial``
    maps a function to the names of those that its module is given first. ``linked`` are functions
    whose code is part of the model's library.
    """

    def __init__(
        self,
        key: str,
        modules: Sequence[Module],
        symbols: Sequence[str],
        linked: Sequence[str],
        constants: Mapping[str, Any],
        initial: Mapping[str, Sequence[str]],
    ) -> None:
        self.key = key
        self.modules = list(modules)
        self.symbols = list(symbols)
        self.linked = list(linked)
        self.constants = dict(constants)
        self.initial = {name: list(names) for name, names in initial.items()}
        self.library: Callable[[], Library] | None = None
        self._ready: dict[str, Callable[..., Any]] = {}
        self._lock = threading.RLock()

    @staticmethod
    def open(*arguments: Any) -> ExternalModules:
        """Return the modules of a key; of what is loaded twice, there is one."""
        made = ExternalModules(*arguments)
        return _live.setdefault(made.key, made)

    def function(self, symbol: str) -> Callable[..., Any]:
        """Return a function, after its module got its constants."""
        found = self._ready.get(symbol)
        if found is not None:
            return found
        with self._lock:
            found = self._find(symbol)
            if found is None:
                raise UnknownNameError(
                    f"no external module has the function '{symbol}'",
                    notes=("the code generator has to name it by func.attrs['global_symbol']",),
                )
            names = self.initial.get(symbol)
            begin = self._find("__init_" + symbol) if names is not None else None
            if names is not None and begin is not None and symbol not in self._ready:
                from tilesmith.runtime.ndarray import array

                begin([array(self.constants[name]) for name in names])
            self._ready[symbol] = found
            return found

    def _find(self, symbol: str) -> Callable[..., Any] | None:
        for module in self.modules:
            if module.implements_function(symbol, True):
                found: Callable[..., Any] = module[symbol]
                return found
        if symbol in self.linked and self.library is not None:
            return self.library().get_function(symbol)
        return None

    # -- saving -----------------------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes], dict[str, Any]]:
        """Return metadata, members and parameters of an artifact. Raises UnsupportedError for a
        module that cannot be saved.
        """
        members: dict[str, bytes] = {}
        kinds = []
        for number, module in enumerate(self.modules):
            if module.objects:
                continue  # linked with the rest
            members[_MEMBER.format(number)] = content_of(module)
            kinds.append({"kind": module.type_key, "member": _MEMBER.format(number)})
        metadata = {
            "key": self.key,
            "modules": kinds,
            "symbols": self.symbols,
            "linked": self.linked,
            "constants": list(self.constants),
            "initial": self.initial,
        }
        values = {_CONSTANT + name: value for name, value in self.constants.items()}
        return metadata, members, values

    @staticmethod
    def load(
        metadata: Mapping[str, Any], code: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> ExternalModules:
        """Return the modules that `saved` described."""
        try:
            modules = [
                _read(str(one["kind"]), bytes(code[one["member"]])) for one in metadata["modules"]
            ]
            constants = {name: parameters[_CONSTANT + name] for name in metadata["constants"]}
            return ExternalModules.open(
                str(metadata["key"]), modules, metadata["symbols"], metadata["linked"], constants,
                metadata["initial"],
            )  # fmt: skip
        except KeyError as error:
            raise ArtifactError(f"the external modules lack {error}") from error


def content_of(module: Module) -> bytes:
    """Return what an artifact keeps of a module. Raises UnsupportedError for a module of functions
    of this process.
    """
    if module.saved is None:
        raise UnsupportedError(
            f"a module of type '{module.type_key}' cannot be saved: "
            f"{', '.join(module.function_names[:5])} live in this process only",
            notes=(
                "an external code generator can give a CSourceModule, or a module with its "
                "content: Module('kind', functions=…, saved=content), and register "
                "'runtime.module.loadbinary_kind'",
            ),
        )
    return module.saved


def key_of(modules: Sequence[Module], constants: Mapping[str, Any]) -> str:
    """Return a key for the modules of a new model: made of the contents if all can be saved, so
    that a model that is built twice is the same.
    """
    if not all(module.objects or module.saved is not None for module in modules):
        return f"process{next(_numbers)}"
    digest = hashlib.blake2b(digest_size=12)
    for module in modules:
        for content in module.objects or [content_of(module)]:
            digest.update(content)
    for name, value in constants.items():
        digest.update(name.encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def _read(kind: str, content: bytes) -> Any:
    reader = get_global_func(f"runtime.module.loadbinary_{kind}", allow_missing=True)
    if reader is not None:
        return reader(content)
    known = READERS.get(kind, None)
    if known is None:
        raise ArtifactError(
            f"the artifact holds a module of kind '{kind}', which nothing here can read",
            notes=(f"register the function 'runtime.module.loadbinary_{kind}' before loading it",),
        )
    return known(content)
