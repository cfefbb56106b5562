"""Declares passes: one decorator turns a function, or a class, into the pass of that name.

    @compiler_pass("tir.UnrollLoop", options={"auto_max_step": 0})
    def unroll_loop(func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
        '''Writes unrolled loops out.'''

The declaration says all about a pass:

* The annotation of the first parameter says what the pass works on: ``IRModule``, or each function
  of a class that has been announced by `works_on` (``PrimFunc``, ``Function``, ``DataflowBlock``).
* Further parameters are the arguments of the pass (``VectorizeLoop(enable_vectorize=False)``).
  Those named ``mod`` and ``context`` receive the module and the PassContext instead; ``options``
  receives the values of the option ``PassContext(config={"tir.UnrollLoop": ...})`` over the
  defaults that the declaration gives.
* The docstring is that of the pass; ``opt_level`` and ``required`` are what a ``Sequential`` asks.
* A class makes the pass of its method ``transform``; its constructor takes and checks the
  arguments.

The function itself is not changed. The pass is found by ``get_pass("tir.UnrollLoop")`` and, by the
last part of its name, in the package of its module (``tir.transform.UnrollLoop()``): `PassNames`
reads the declarations in the files of a package without importing them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from tilesmith.ir.module import IRModule
from tilesmith.ir.pass_context import (
    PassContext,
    PassInfo,
    provide_options,
    register_config_option,
)
from tilesmith.ir.transform import (
    FunctionLevelPass,
    ModulePass,
    Pass,
    pass_factory,
    provide_passes,
    register_pass,
)
from tilesmith.support.errors import ConfigError, UnknownNameError
from tilesmith.support.registry import Registry

__all__ = [
    "OptionValues",
    "PassNames",
    "PassRecord",
    "compiler_pass",
    "config_class",
    "pass_record",
    "passes_of_package",
    "works_on",
]

Declared = TypeVar("Declared", bound=Callable[..., Any])
Apply = Callable[[Any, IRModule, PassContext], Any]
_LEVELS: Registry[Callable[[Apply, PassInfo], Pass]] = Registry(
    "thing that passes work on",
    {
        "PrimFunc": "tilesmith.tir.transform",
        "Function": "tilesmith.relax.transform",
        "DataflowBlock": "tilesmith.relax.transform",
    },
)
_LEVELS.register(
    "IRModule",
    lambda apply, info: ModulePass(lambda mod, ctx: apply(mod, mod, ctx), info),
)
_SUPPLIED = ("mod", "context", "options")
_RECORDS: dict[str, PassRecord] = {}
_PACKAGES: list[PassNames] = []


def works_on(annotation: str, pass_class: Callable[[Apply, PassInfo], Pass]) -> None:
    """Declare what the annotation of a first parameter means: ``pass_class(apply, info)`` makes the
    pass that hands each such object to ``apply(object, module, context)``.
    """
    _LEVELS.register(annotation, pass_class)


@dataclass(frozen=True)
class PassRecord:
    """All facts about a pass; calling the record makes the pass with its arguments.

    ``parameters``: those of the pass, without what is supplied when it runs. ``options``: names and
    defaults of the sub-options of ``PassContext(config={name: ...})``.
    """

    name: str
    declared: Callable[..., Any]
    level: str
    parameters: inspect.Signature
    opt_level: int
    required: tuple[str, ...]
    options: Mapping[str, Any]
    supplied: frozenset[str] = field(default=frozenset())

    @property
    def short_name(self) -> str:
        """The name under which users find it in its package."""
        return self.name.rsplit(".", 1)[-1]

    def make(self, *args: Any, **kwargs: Any) -> Pass:
        """Make the pass with these arguments; a TypeError names those that do not fit its
        parameters.
        """
        try:
            bound = self.parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.short_name}{self.parameters}: {error}") from None
        run = self._function(bound)
        info = PassInfo(self.opt_level, self.name, self.required)
        return _LEVELS[self.level](run, info)

    def _function(self, bound: inspect.BoundArguments) -> Apply:
        function, given = self.declared, bound.arguments
        if isinstance(function, type):
            function, given = function(**bound.arguments).transform, {}

        def run(thing: Any, mod: IRModule, context: PassContext) -> Any:
            values: dict[str, Any] = {"mod": mod, "context": context}
            if "options" in self.supplied:
                values["options"] = {**self.options, **(context.get_config(self.name) or {})}
            supplied = {name: values[name] for name in self.supplied}
            return function(thing, **given, **supplied)

        return run


def compiler_pass(
    name: str,
    *,
    opt_level: int = 0,
    required: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
    aliases: Iterable[str] = (),
) -> Callable[[Declared], Declared]:
    """Declare the pass ``name``; see the module docstring. ``aliases``: further names of it.

    Raises ConfigError when the first parameter does not say what the pass works on.
    """

    def declare(declared: Declared) -> Declared:
        for one in (name, *aliases):
            record = _record(one, declared, opt_level, tuple(required), options or {})
            _RECORDS[one] = record
            register_pass(one, _factory(record))
            if record.options:
                kinds = {option: type(value) for option, value in record.options.items()}
                register_config_option(one, kinds, None, _first_line(declared))
        return declared

    return declare


def _record(
    name: str,
    declared: Callable[..., Any],
    opt_level: int,
    required: tuple[str, ...],
    options: Mapping[str, Any],
) -> PassRecord:
    if isinstance(declared, type):
        taken = list(inspect.signature(declared).parameters.values())
        run = list(inspect.signature(declared.transform).parameters.values())[1:]  # type: ignore[attr-defined]
    else:
        run = list(inspect.signature(declared).parameters.values())
        taken = run[1:]
    annotation = run[0].annotation if run else ""
    level = getattr(annotation, "__name__", str(annotation)).rsplit(".", 1)[-1]
    if level not in _LEVELS:
        known = ", ".join(_LEVELS.names(load=True))
        raise ConfigError(
            f"the pass '{name}' does not say what it works on",
            notes=(
                f"annotate the first parameter of {declared.__qualname__} with one of: {known}",
            ),
        )
    supplied = frozenset([one.name for one in run[1:] if one.name in _SUPPLIED])
    parameters = inspect.Signature([one for one in taken if one.name not in _SUPPLIED])
    return PassRecord(
        name, declared, level, parameters, opt_level, required, dict(options), supplied
    )


def _factory(record: PassRecord) -> Callable[..., Pass]:
    """Return the function that users call to make the pass, with its signature and docstring."""

    def make(*args: Any, **kwargs: Any) -> Pass:
        return record.make(*args, **kwargs)

    make.__name__ = make.__qualname__ = record.short_name
    make.__module__ = _package_of(record)
    make.__doc__ = record.declared.__doc__
    make.__signature__ = record.parameters  # type: ignore[attr-defined]
    # Programs that know passes as classes look their methods up in what makes them.
    if record.level == "IRModule":
        make.transform_module = ModulePass.transform_module  # type: ignore[attr-defined]
    else:
        make.transform_function = FunctionLevelPass.transform_function  # type: ignore[attr-defined]
    return make


def _package_of(record: PassRecord) -> str:
    """Return the package where users find a pass, and where pickle looks it up."""
    module = record.declared.__module__
    for names in _PACKAGES:
        if module.startswith(names.package + ".") and record.name.startswith(names.prefix):
            return names.package
    return module


def _first_line(declared: Callable[..., Any]) -> str:
    return (declared.__doc__ or "").strip().partition("\n")[0]


def pass_record(name: str) -> PassRecord:
    """Return the record of a declared pass whose module has been imported."""
    return _RECORDS[name]


class OptionValues(Mapping[str, Any]):
    """The values of an option as an object, for programs that prefer objects to dictionaries.

    ``LoopPartitionConfig(partition_const_loop=True)`` is what ``{"partition_const_loop": True}`` is
    in ``PassContext(config={"tir.LoopPartition": ...})``; both are accepted. Values that are not
    given have their defaults; each is an attribute as well.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        unknown = [name for name in values if name not in self.defaults]
        if unknown:
            raise UnknownNameError(
                f"{type(self).__name__} has no '{unknown[0]}'",
                notes=("it has: " + ", ".join(self.defaults),),
            )
        self._values = {**self.defaults, **values}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={value!r}" for name, value in self._values.items()])
        return f"{type(self).__name__}({values})"


def config_class(pass_name: str) -> type[OptionValues]:
    """Return the class of the option values of a pass: ``config_class("tir.UnrollLoop")``.

    Raises UnknownNameError for an unknown pass, ConfigError for one that has no options.
    """
    pass_factory(pass_name)  # loads the module that declares it
    record = pass_record(pass_name)
    if not record.options:
        raise ConfigError(f"the pass '{pass_name}' has no options")
    name = f"{record.short_name}Config"
    namespace = {"defaults": record.options, "__doc__": record.declared.__doc__}
    return type(name, (OptionValues,), namespace)


_DECLARATION = re.compile(r'^@compiler_pass\(\s*"([\w.]+)"(.*?)^(?:def|class) ', re.M | re.S)
_ALIASES = re.compile(r"aliases=\(([^)]*)\)")


class PassNames:
    """The passes that the modules of a package declare, found without importing these modules.

    It serves the registries of passes and options as a loader, the package's names as a finder.
    """

    def __init__(self, prefix: str, package: str, path: Iterable[str]) -> None:
        """``prefix`` is what the names of the passes begin with ("tir."), ``package`` the name of
        the package, ``path`` its ``__path__``."""
        self.prefix = prefix
        self.package = package
        self.path = [Path(folder) for folder in path]
        self._modules: dict[str, str] | None = None

    def modules(self) -> Mapping[str, str]:
        """Return for each pass name the module that declares it, in the order of the files'
        names.
        """
        if self._modules is None:
            found: dict[str, str] = {}
            for folder in self.path:
                for file in sorted(folder.rglob("*.py")):
                    text = file.read_text(encoding="utf-8")
                    if "@compiler_pass(" in text:
                        inner = file.relative_to(folder).with_suffix("").parts
                        module = ".".join([self.package, *inner])
                        for name in _declared_names(text):
                            found[name] = module
            self._modules = found
        return self._modules

    def load(self, name: str) -> None:
        """Import the module that declares a pass, if there is one."""
        module = self.modules().get(name)
        if module is not None:
            import_module(module)

    def load_all(self) -> None:
        """Import the modules of all passes."""
        for module in dict.fromkeys(self.modules().values()):
            import_module(module)

    def find(self, name: str) -> Any:
        """Return the object of a name in the package: the pass (``UnrollLoop``), or the class of
        its option's values (``UnrollLoopConfig``).
        """
        if self.prefix + name in self.modules():
            return pass_factory(self.prefix + name)
        described = self.prefix + name.removesuffix("Config")
        if name.endswith("Config") and described in self.modules():
            return config_class(described)
        raise AttributeError(f"module '{self.package}' has no attribute '{name}'")

    def public_names(self) -> list[str]:
        """Return the names under which users find the passes in the package."""
        return [name.removeprefix(self.prefix) for name in self.modules()]


def passes_of_package(prefix: str, package: str, path: Iterable[str]) -> PassNames:
    """Return the passes that a package declares and let `get_pass` find them; see `PassNames`."""
    names = PassNames(prefix, package, path)
    _PACKAGES.append(names)
    provide_passes(prefix, names)
    if prefix:
        provide_options(prefix, names)
    return names


def _declared_names(text: str) -> list[str]:
    names: list[str] = []
    for name, rest in _DECLARATION.findall(text):
        aliases = _ALIASES.search(rest)
        names += [name, *re.findall(r'"([\w.]+)"', aliases[1] if aliases else "")]
    return names
