"""PartitionGraph: regions of external compilers become functions of the module.

compiler_end(add(compiler_begin(a), compiler_begin(b)))  →  @tvmgen_default_NAME_main_0(a, b)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.relay.dataflow_groups import is_grouped
from tilesmith.relay.expr import Call, Constant, Tuple, TupleGetItem, Var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.transform.annotate_target import BEGIN, END, is_annotation
from tilesmith.relay.transform.compiler_regions import Region, ordered, regions_of
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts

__all__ = ["PartitionGraph"]


@relay_pass("PartitionGraph")
def PartitionGraph(
    mod: IRModule, mod_name: str = "default", bind_constants: bool = True
) -> IRModule:
    """Turn regions between compiler_begin and compiler_end into functions with the attributes
    ``Compiler`` and ``global_symbol``.

    With ``bind_constants`` constants that a region reads are part of its function.
    """
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if not is_grouped(function):
            work = _Partition(mod, f"tvmgen_{mod_name}", variable.name_hint, bind_constants)
            mod[variable] = work.run(function)
    return infer_module(mod)


class _Partition:
    """Partitions one function of a module."""

    def __init__(self, mod: IRModule, prefix: str, name: str, bind: bool) -> None:
        self.mod = mod
        self.prefix = prefix
        self.name = name
        self.bind = bind
        self.home: dict[int, Region] = {}
        self.done: dict[int, Any] = {}
        self.calls: dict[int, tuple[Call, dict[int, int]]] = {}
        self.count = 0

    def run(self, function: Function) -> Function:
        """Return the function, which calls the new ones."""
        self.home = regions_of(function)
        if not self.home:
            return function
        for node in ordered(function, self._below):
            if is_annotation(node, END):
                self.done[id(node)] = self._result(node)
            elif is_annotation(node, BEGIN):
                self.done[id(node)] = self.done[id(node.args[0])]
            elif is_grouped(node):
                self.done[id(node)] = node
            else:
                new = [self.done[id(part)] for part in parts(node)]
                self.done[id(node)] = with_parts(node, new)
        made: Function = self.done[id(function)]
        return made

    def _below(self, node: Any) -> Sequence[Any]:
        region = self.home.get(id(node))
        if region is None or region.compiler == "default":
            return () if is_grouped(node) else parts(node)
        return [begin.args[0] for begin in region.begins]

    def _result(self, end: Any) -> Any:
        region = self.home[id(end)]
        if region.compiler == "default":  # it is compiled as everything else
            return self.done[id(end.args[0])]
        if id(region) not in self.calls:
            self.calls[id(region)] = self._call(region)
        call, places = self.calls[id(region)]
        return call if len(places) == 1 else TupleGetItem(call, places[id(end.args[0])])

    def _call(self, region: Region) -> tuple[Call, dict[int, int]]:
        """Make the function of a region; return its call and the places of its results."""
        number, self.count = self.count, self.count + 1
        values: dict[int, Any] = {}  # what is given → what stands for it inside
        params: list[Var] = []
        arguments: list[Any] = []
        table: dict[int, Any] = {}
        for begin in region.begins:
            source = begin.args[0]
            if id(source) not in values:
                if self.bind and isinstance(source, Constant):
                    values[id(source)] = source
                else:
                    name = f"{region.compiler}_{number}_i{len(params)}"
                    params.append(Var(name, source.struct_info, dialect="relay"))
                    arguments.append(self.done[id(source)])
                    values[id(source)] = params[-1]
            table[id(begin)] = values[id(source)]
        outputs = list({id(end.args[0]): end.args[0] for end in region.ends}.values())
        places = {id(one): place for place, one in enumerate(outputs)}
        body = _inside(outputs[0] if len(outputs) == 1 else Tuple(outputs), table)
        symbol = f"{self.prefix}_{region.compiler}_{self.name}_{number}"
        attrs = {
            "Compiler": region.compiler, "Primitive": 1, "Inline": 1, "global_symbol": symbol,
        }  # fmt: skip
        variable = GlobalVar(symbol)
        self.mod[variable] = Function(params, body, attrs=attrs)
        return Call(variable, arguments), places


def _inside(expr: Any, table: Mapping[int, Any]) -> Any:
    """Return what a region computes, with parameters in place of what enters it."""
    done: dict[int, Any] = dict(table)
    for node in post_order(expr, lambda one: id(one) not in table and not is_grouped(one)):
        if id(node) not in done:
            if is_grouped(node):
                done[id(node)] = node
            else:
                done[id(node)] = with_parts(node, [done[id(part)] for part in parts(node)])
    return done[id(expr)]
