"""Runs passes: single ones, sequences, and passes made of functions.

    @module_pass(opt_level=2, name="Clean")
    def clean(mod, ctx):
        return mod

    with PassContext(opt_level=3, disabled_pass=["FuseOps"], config={"tir.disable_assert": True}):
        mod = Sequential([clean, FuseOps()])(mod)

A pass is a pure function from module to module: it gets a shallow copy and may change that. Called
by itself a pass always runs; in a ``Sequential`` the context decides (``opt_level``,
``required_pass``, ``disabled_pass``).
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from tilesmith.ir.instrument import (
    DumpIR,
    PassInstrument,
    PassTimingInstrument,
    PrintChanged,
    instruments_of_thread,
)
from tilesmith.ir.instrument import pass_instrument as pass_instrument
from tilesmith.ir.module import BaseFunc, IRModule
from tilesmith.ir.pass_context import PassContext, PassInfo, register_config_option
from tilesmith.support.errors import ConfigError, TilesmithError, TypeMismatchError
from tilesmith.support.fallbacks import fallbacks_within
from tilesmith.support.knobs import knobs
from tilesmith.support.recursion import deep_recursion
from tilesmith.support.registry import Loader, Registry

__all__ = [
    "ApplyPassToFunction", "ModulePass", "Pass", "PassContext", "PassInfo", "PrintIR", "Sequential",
    "get_pass", "module_pass", "pass_decorator", "register_config_option", "register_pass",
]  # fmt: skip


# Passes.


class Pass:
    """Base of passes: ``p(mod)`` returns the new module. Subclasses implement ``transform``."""

    _info: PassInfo | None = None

    @property
    def info(self) -> PassInfo:
        """The name, the level and the required passes; without any the name of the class."""
        return self._info or PassInfo(0, type(self).__name__)

    @info.setter
    def info(self, info: PassInfo) -> None:
        self._info = info

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the new module. ``mod`` belongs to this call and may be changed."""
        raise NotImplementedError

    def __call__(self, mod: IRModule) -> IRModule:
        """Run the pass on a module, under the current context."""
        if not isinstance(mod, IRModule):
            raise TypeMismatchError(
                f"the pass '{self.info.name}' takes an IRModule, got {type(mod).__name__}",
                notes=("put the function into a module first: IRModule.from_expr(func)",)
                if isinstance(mod, BaseFunc)
                else (),
            )
        return _run(self, mod, PassContext.current())

    def __repr__(self) -> str:
        return f"<pass {self.info.name}, opt_level {self.info.opt_level}>"


class _Run(threading.local):
    """Counts nested and finished passes of this thread, and holds the instruments that environment
    variables ask for.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.count = 0
        self.watchers: tuple[Any, ...] = ()


_run_state = _Run()


def _watchers() -> tuple[Any, ...]:
    """Return the instruments that the knobs ask for."""
    found: list[Any] = []
    if knobs.timing:
        found.append(PassTimingInstrument())
    level = knobs.debug_level
    if level >= 2:
        patterns = knobs.debug.split(",")[1:]
        found.append(_Debug(level, [part for part in patterns if part]))
    if knobs.dump_dir is not None:
        found.append(DumpIR(knobs.dump_dir))
    return tuple(found)


class _Debug(PassInstrument):
    """Prints what ``TILESMITH_DEBUG`` asks for: 2 names of passes, 3 what they changed, 5 the
    module after each. (From 1 on, fallbacks are shown as well: ``support/fallbacks.py``.)
    """

    def __init__(self, level: int, patterns: list[str]) -> None:
        self.level = level
        self.patterns = [
            re.compile(part.replace(".", r"\.").replace("*", ".*")) for part in patterns
        ]
        self.changes = PrintChanged()

    def wanted(self, info: PassInfo) -> bool:
        return not self.patterns or any(part.fullmatch(info.name) for part in self.patterns)

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if self.wanted(info) and self.level in (3, 4):
            self.changes.run_before_pass(mod, info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if not self.wanted(info):
            return
        if self.level in (3, 4):
            self.changes.run_after_pass(mod, info)
        else:
            print(f"# {info.name}", file=sys.stderr)
            if self.level >= 5:
                print(mod.script(), file=sys.stderr)


def _run(transform_pass: Pass, mod: IRModule, ctx: PassContext) -> IRModule:
    state, info = _run_state, transform_pass.info
    outermost = state.depth == 0
    if outermost:
        state.count = 0
        state.watchers = _watchers()
    instruments = ctx.instruments + state.watchers + instruments_of_thread()
    required = info.name in ctx.required_pass
    for instrument in instruments:
        if not instrument.should_run(mod, info) and not required:
            return mod
    if _stopped(transform_pass):
        return mod
    for instrument in instruments:
        instrument.run_before_pass(mod, info)
    state.depth += 1
    try:
        with deep_recursion():
            result = transform_pass.transform(mod.shallow_copy(), ctx)
    except Exception as error:
        if not isinstance(transform_pass, Sequential):
            _add_note(error, f"in the pass '{info.name}'")
        raise
    finally:
        state.depth -= 1
    if not isinstance(result, IRModule):
        raise TypeMismatchError(
            f"the pass '{info.name}' has to return an IRModule, it returned {type(result).__name__}"
        )
    for instrument in instruments:
        instrument.run_after_pass(result, info)
    if outermost:
        for watcher in state.watchers:
            if isinstance(watcher, PassTimingInstrument):
                print(watcher.render(), file=sys.stderr)
    return result


def _stopped(transform_pass: Pass) -> bool:
    """True if ``TILESMITH_PASS_LIMIT`` passes have run: bisection finds the one that is wrong."""
    limit: int | None = knobs.pass_limit
    if limit is None or isinstance(transform_pass, Sequential):
        return False
    _run_state.count += 1
    return _run_state.count > limit


def _add_note(error: Exception, note: str) -> None:
    if isinstance(error, TilesmithError):
        if not any(known.startswith("in the pass ") for known in error.notes):
            error.notes = (*error.notes, note)
    elif not getattr(error, "__notes__", None):
        error.add_note(note)


class ModulePass(Pass):
    """A pass made of a function of ``(mod, ctx)``."""

    def __init__(
        self, function: Callable[[IRModule, PassContext], IRModule], info: PassInfo
    ) -> None:
        self.function = function
        self.info = info

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply the function to the module."""
        return self.function(mod, ctx)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply the function to a module as it is, without what else belongs to running a pass."""
        return self.function(mod, ctx)


class FunctionLevelPass(Pass):
    """A pass that works on each function of one class; where it returns None the function is
    removed.
    """

    function_class: ClassVar[type] = BaseFunc

    def __init__(
        self, function: Callable[[Any, IRModule, PassContext], Any], info: PassInfo
    ) -> None:
        self.function = function
        self.info = info

    def transform_function(self, func: Any, mod: IRModule, ctx: PassContext) -> Any:
        """Apply the pass to one function as it is."""
        return self.function(func, mod, ctx)

    def wanted(self, function: Any) -> bool:
        """True if the pass works on this function."""
        return isinstance(function, self.function_class)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply the pass to each function it works on."""
        for variable, old in list(mod.functions.items()):
            if not self.wanted(old):
                continue
            try:
                with fallbacks_within(variable.name_hint):
                    new = self.function(old, mod, ctx)
            except TilesmithError as error:
                place = f"in the function '{variable.name_hint}'"
                if not any(note.startswith("in the function ") for note in error.notes):
                    error.notes = (*error.notes, place)
                raise
            if new is None:
                del mod[variable]
            elif new is not old:
                mod[variable] = new
        return mod


class Sequential(Pass):
    """Passes one after the other. The context decides which of them run; passes that one of them
    requires run before it.
    """

    def __init__(
        self,
        passes: Iterable[Any] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.passes = list(passes or ())
        for item in self.passes:
            if not isinstance(item, Pass):
                raise TypeMismatchError(
                    f"a sequence is made of passes, got {item!r}",
                    notes=("call the class or factory: FoldConstant()",) if callable(item) else (),
                )
        self.info = PassInfo(opt_level, name, required, traceable)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Run the enabled passes in order."""
        for item in self.enabled_passes(ctx):
            mod = item(mod)
        return mod

    def enabled_passes(self, ctx: PassContext) -> Iterator[Pass]:
        """Yield the passes that run under a context, each after those that it requires."""
        for item in self.passes:
            if ctx.pass_enabled(item.info):
                yield from [get_pass(name) for name in item.info.required]
                yield item

    def __repr__(self) -> str:
        return f"Sequential({self.passes}, name={self.info.name!r})"


_PASSES: Registry[Callable[..., Pass]] = Registry(
    "pass",
    providers={
        "tir.": "tilesmith.tir.transform",
        "tir.DefaultGPUSchedule": "tilesmith.schedule_rules.default_gpu_schedule",
        "InferType": "tilesmith.relay.transform.types",
        "": "tilesmith.relax.transform",
    },
)


def provide_passes(prefix: str, loader: Loader) -> None:
    """Set the loader that registers the passes whose names begin with ``prefix``."""
    _PASSES.provide(prefix, loader)


def pass_factory(name: str) -> Callable[..., Pass]:
    """Return the function that makes the pass of that name.

    Raises UnknownNameError, which suggests the nearest name, when there is none.
    """
    found = _PASSES.get(name, None)
    if found is None:
        pass_names()  # loads them all, so that the error can suggest the nearest
        found = _PASSES.get(name)
    return found


def pass_names() -> list[str]:
    """Return the names of all passes."""
    return _PASSES.names(load=True)


def register_pass(name: str, factory: Callable[..., Pass] | None = None) -> Any:
    """Register the function that makes the pass of that name, so that other passes can require it
    by name. Without ``factory`` this is a decorator.
    """
    return _PASSES.register(name, factory, override=True)


def get_pass(name: str) -> Pass:
    """Return the pass of that name, with its default arguments."""
    return pass_factory(name)()


# Decorators.


def pass_decorator(base: type, method: str, kind: str) -> Callable[..., Any]:
    """Return the decorator that makes passes of class ``base`` from functions, and from classes
    with a method ``method`` (``module_pass``, ``prim_func_pass``, ``function_pass``, ...).
    """

    def decorator(
        pass_func: Any = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> Any:
        if opt_level is None:
            raise ConfigError(f"a {kind} needs an opt_level: @{kind}(opt_level=0)")

        def make(target: Any) -> Any:
            info = PassInfo(opt_level, name or target.__name__, required, traceable)
            if isinstance(target, type):
                return _wrap_class(base, method, kind, target, info)
            if not callable(target):
                raise TypeMismatchError(f"a {kind} is a function or a class, got {target!r}")
            return base(target, info)

        return make if pass_func is None else make(pass_func)

    decorator.__name__ = decorator.__qualname__ = kind
    decorator.__module__ = base.__module__
    decorator.__doc__ = (
        f"Make a pass of a function, or of a class with a method ``{method}``; the class is then "
        "called with its own arguments to make the pass."
    )
    return decorator


def _wrap_class(base: type, method: str, kind: str, target: type, info: PassInfo) -> type:
    if not hasattr(target, method):
        raise TypeMismatchError(f"a {kind} that is a class needs a method {method}")

    class Wrapped(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.instance = target(*args, **kwargs)
            super().__init__(getattr(self.instance, method), info)

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "instance":
                raise AttributeError(attribute)
            return getattr(self.instance, attribute)

    for name, value in vars(target).items():  # what users read from the class itself
        if not name.startswith("_") and not hasattr(Wrapped, name) and not callable(value):
            setattr(Wrapped, name, value)
    Wrapped.__name__, Wrapped.__qualname__ = target.__name__, target.__qualname__
    Wrapped.__module__, Wrapped.__doc__ = target.__module__, target.__doc__
    return Wrapped


module_pass = pass_decorator(ModulePass, "transform_module", "module_pass")


def PrintIR(header: str = "", show_meta_data: bool = False) -> Pass:
    """Make a pass that prints the module and returns it unchanged."""

    def print_module(mod: IRModule, ctx: PassContext) -> IRModule:
        print(f"# PrintIR({header})" if header else "# PrintIR()")
        print(mod.script(show_meta=show_meta_data))
        return mod

    return ModulePass(print_module, PassInfo(0, "PrintIR"))


def ApplyPassToFunction(
    transform: Pass, func_name_regex: str, error_if_no_function_matches_regex: bool = False
) -> Pass:
    """Make a pass that applies another one to those functions whose whole name matches."""
    pattern = re.compile(func_name_regex)

    def apply(mod: IRModule, ctx: PassContext) -> IRModule:
        chosen = {var: f for var, f in mod.functions.items() if pattern.fullmatch(var.name_hint)}
        if not chosen and error_if_no_function_matches_regex:
            names = ", ".join(var.name_hint for var in mod.functions)
            raise ConfigError(
                f"no function matches '{func_name_regex}'", notes=(f"functions: {names}",)
            )
        part = IRModule(chosen, mod.type_definitions, mod.attrs, mod.global_infos)
        changed = transform(part)
        for variable in chosen:
            if variable not in changed:
                del mod[variable]
        mod.update(changed)
        return mod

    name = f"ApplyPassTo({transform.info.name}, {func_name_regex})"
    return ModulePass(apply, PassInfo(0, name))
