"""SeparateDeviceFunctions: functions that kernels call become functions of the device.

    for tx in T.thread_binding(32, ...):        def scale(x: T.float32) -> T.float32:
        B[tx] = cls.scale(A[tx])                    T.func_attr({"tir.is_device_function": True})
                                                    return x * T.float32(2)

Such a function gets the target of the device, without a host, and no symbol: it is code of each
kernel that calls it, and stays beside the kernels when these are outlined. Where the host calls it
too, or others may (it is public), it is copied. A function of the device works for one thread: it
gets indices and memory as arguments. So it cannot start threads or allocate what they share; nor
may it call itself, since threads have no stack to speak of.

This runs first of the passes for devices. ThreadSync takes a call for an access of all memory that
it is given; what threads exchange within a function needs barriers that are written there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tilesmith.ir import Call, GlobalVar, IRModule, Node, PrimExpr, Var
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call, walk
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.queries import has_barrier_of_grid
from tilesmith.tir.stmt import Allocate, AttrStmt, For, ForKind, Stmt
from tilesmith.tir.transform.functions.device_regions import DEVICE_KEYS, without_host
from tilesmith.tir.transform.functions.kernel import kernel_function

__all__ = ["DEVICE_FUNCTION", "separate_device_functions"]

DEVICE_FUNCTION = "tir.is_device_function"
"""The attribute of functions that kernels call."""

_REGIONS = (*DEVICE_KEYS, "target")


class _Site(NamedTuple):
    """A call of a function of the module, and the user's line with it."""

    callee: GlobalVar
    args: tuple[PrimExpr, ...]
    span: Any


def _calls(mod: IRModule, func: PrimFunc, in_kernel: bool = False) -> tuple[list[_Site], ...]:
    """Return the calls of the module's functions in a function: those in kernels, and the others.

    ``in_kernel``: all are in kernels.
    """
    inside: list[_Site] = []
    outside: list[_Site] = []
    stack: list[tuple[Node, bool, Any]] = [(func.body, in_kernel, func.span)]
    while stack:
        node, is_inside, span = stack.pop()
        span = getattr(node, "span", None) or span
        if isinstance(node, AttrStmt) and node.attr_key in _REGIONS:
            stack += [(node.value, is_inside, span), (node.body, True, span)]
            continue
        if isinstance(node, Call) and isinstance(node.op, GlobalVar):
            if isinstance(mod.functions.get(node.op), PrimFunc):
                (inside if is_inside else outside).append(_Site(node.op, node.args, span))
        children: list[Node] = []
        node.push_children(children)
        stack += [(child, is_inside, span) for child in children]
    return inside, outside


class _Renamer(Rewriter):
    """Calls the device's copies of functions inside of kernels."""

    def __init__(self, names: dict[GlobalVar, GlobalVar], inside: bool) -> None:
        self.names = names
        self.inside = inside

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        value = self.visit(node.value)  # the host computes how many threads it starts
        outer, self.inside = self.inside, self.inside or node.attr_key in _REGIONS
        body = self.visit(node.body)
        self.inside = outer
        if value is node.value and body is node.body:
            return node
        return node.with_fields(value=value, body=body)

    def visit_Call(self, node: Call) -> PrimExpr:
        node = self.children(node)
        if not self.inside or not isinstance(node.op, GlobalVar) or node.op not in self.names:
            return node
        return node.with_fields(op=self.names[node.op])


def _check(name: str, func: PrimFunc, call: _Site) -> None:
    """Refuse a function that is not the work of one thread."""
    if has_barrier_of_grid(func.body):
        raise UnsupportedError(
            f"'{name}', which a kernel calls, waits for all blocks",
            span=func.span or call.span,
            notes=("write this barrier in the kernel, which is launched accordingly",),
        )
    for node in walk(func.body):
        if isinstance(node, AttrStmt) and node.attr_key == "thread_extent":
            what, advice = "starts threads", "bind loops in the kernel, and pass the indices"
        elif isinstance(node, For) and node.kind is ForKind.THREAD_BINDING:
            what, advice = "binds a loop to threads", "bind it in the kernel, and pass the index"
        elif isinstance(node, Allocate) and _is_shared(node.buffer_var):
            what = f"allocates shared memory ('{node.buffer_var.name}')"
            advice = "allocate it in the kernel, and pass its pointer (S.data)"
        else:
            continue
        raise UnsupportedError(
            f"'{name}', which a kernel calls, {what}",
            span=getattr(node, "span", None) or call.span,
            notes=(advice,),
        )


def _is_shared(pointer: Var) -> bool:
    return pointer.storage_scope.partition(".")[0] == "shared"


def _space(pointer: PrimExpr) -> str | None:
    """Return the kind of memory behind an argument; None where it is not known."""
    if is_call(pointer, "tir.address_of"):
        load: Any = pointer.args[0]
        pointer = load.buffer.data
    elif is_call(pointer, "tir.tvm_access_ptr"):
        pointer = pointer.args[1]
    if not isinstance(pointer, Var):
        return None
    return (pointer.storage_scope or "global").partition(".")[0]


def _check_arguments(name: str, func: PrimFunc, call: _Site) -> None:
    """Refuse arguments that the parameters of a function of the device cannot take."""
    if len(call.args) != len(func.params):
        raise TypeMismatchError(
            f"'{name}' takes {len(func.params)} arguments, the kernel passes {len(call.args)}",
            span=call.span,
            notes=("sizes of buffers that are variables are parameters of their own",),
        )
    for param, arg in zip(func.params, call.args):
        if not param.dtype.is_handle:
            continue
        given, wanted = _space(arg), _space(param)
        if given is not None and given != wanted:
            raise TypeMismatchError(
                f"'{name}' takes a pointer to {wanted} memory ('{param.name}'), the kernel passes "
                f"one to {given} memory",
                span=call.span,
                notes=(f'declare it: {param.name}: T.handle("…", "{given}")',),
            )


class _Separator:
    """Makes the functions of the device that a module's kernels need."""

    def __init__(self, mod: IRModule, target: Target) -> None:
        self.mod, self.target = mod, target
        self.needed: dict[GlobalVar, _Site] = {}  # with a call of it
        self.callees: dict[GlobalVar, list[_Site]] = {}
        self.sites: list[_Site] = []

    def functions(self) -> Iterator[tuple[GlobalVar, PrimFunc]]:
        """Return the functions of tensors, those of the device left out."""
        for variable, func in list(self.mod.functions.items()):
            if isinstance(func, PrimFunc) and not func.attrs.get(DEVICE_FUNCTION):
                yield variable, func

    def function(self, variable: GlobalVar) -> PrimFunc:
        """Return a function of the module."""
        found = self.mod[variable]
        assert isinstance(found, PrimFunc)  # others are not called by tensor functions
        return found

    def need(self, call: _Site) -> None:
        """Note a function that a kernel calls, and all that it calls."""
        waiting = [call]
        while waiting:
            call = waiting.pop()
            variable = call.callee
            if variable in self.needed:
                continue
            self.needed[variable] = call
            found, _ = _calls(self.mod, self.function(variable), True)
            self.callees[variable] = found
            waiting += found

    def refuse_recursion(self) -> None:
        """Refuse functions that call themselves, directly or through others."""
        done: set[GlobalVar] = set()
        for start in self.needed:
            stack: list[tuple[GlobalVar, Iterator[_Site]]] = [(start, iter(self.callees[start]))]
            path = [start]
            while stack and start not in done:
                variable, calls = stack[-1]
                call = next(calls, None)
                if call is None:
                    done.add(variable)
                    stack.pop()
                    path.pop()
                elif call.callee in path:
                    names = [one.name_hint for one in path[path.index(call.callee) :]]
                    raise UnsupportedError(
                        f"'{names[0]}', which a kernel calls, calls itself"
                        + (f" through {', '.join(names[1:])}" if names[1:] else ""),
                        span=call.span,
                        notes=("threads of a device have no stack for it: write a loop",),
                    )
                elif call.callee not in done:
                    stack.append((call.callee, iter(self.callees[call.callee])))
                    path.append(call.callee)

    def run(self) -> IRModule:
        """Return the module with functions of the device beside the others."""
        calling: list[GlobalVar] = []
        in_kernels: list[_Site] = []
        for variable, func in self.functions():
            found, _ = _calls(self.mod, func)
            in_kernels += found
            calling += [variable] if found else []
        for call in in_kernels:
            self.need(call)
        if not self.needed:
            return self.mod
        self.refuse_recursion()
        self.sites = [*in_kernels, *[one for calls in self.callees.values() for one in calls]]
        by_host = self._called_by_host()
        names: dict[GlobalVar, GlobalVar] = {}
        for variable in self.needed:
            func = self.function(variable)
            is_shared = "global_symbol" in func.attrs or variable in by_host
            names[variable] = GlobalVar(self._fresh(variable.name_hint)) if is_shared else variable
        made = {names[variable]: self._separated(variable, names) for variable in self.needed}
        for variable in calling:
            func = self.function(variable)
            self.mod[variable] = func.with_body(_Renamer(names, False).visit(func.body))
        for variable, func in made.items():
            self.mod[variable] = func
        return self.mod

    def _called_by_host(self) -> set[GlobalVar]:
        """Return the functions that the host calls, directly or through others."""
        found: set[GlobalVar] = set()
        for variable, func in self.functions():
            if variable not in self.needed or "global_symbol" in func.attrs:
                found |= {call.callee for call in _calls(self.mod, func)[1]}
        while True:
            more = {one.callee for each in found & set(self.callees) for one in self.callees[each]}
            if more <= found:
                return found
            found |= more

    def _fresh(self, name: str) -> str:
        made, number = f"{name}_on_device", 1
        while made in self.mod:
            made, number = f"{name}_on_device_{number}", number + 1
        return made

    def _separated(self, variable: GlobalVar, names: dict[GlobalVar, GlobalVar]) -> PrimFunc:
        name, call = variable.name_hint, self.needed[variable]
        func = self.function(variable)
        _check(name, func, call)
        func = kernel_function(func)
        for one in self.sites:
            if one.callee == variable:
                _check_arguments(name, func, one)
        func = func.without_attr("global_symbol").with_attr(
            {"target": self.target, DEVICE_FUNCTION: True}
        )
        body = _Renamer(names, True).visit(func.body)
        renamed = func.with_body(body)
        return renew_defs(renamed) if names[variable] is not variable else renamed


@compiler_pass("tir.SeparateDeviceFunctions")
def separate_device_functions(mod: IRModule, target: Any) -> IRModule:
    """Makes functions of the device of those that kernels call.

    Raises UnsupportedError for functions that call themselves, start threads or allocate shared
    memory, TypeMismatchError for arguments that do not fit.
    """
    return _Separator(mod, without_host(Target(target))).run()
