"""The compiler "ccompiler", an example: sums, differences and products as C source.

for step in (AnnotateTarget("ccompiler"), MergeCompilerRegions(), PartitionGraph()):
    mod = step(mod)
lib = relay.build(mod, "llvm")         # the C code is compiled and linked with the rest
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.codegen.c.source_module import PACKED_INTERFACE, c_source_module, packed_wrapper
from tilesmith.ir import IntImm, Op, register_op_attr
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.struct_info import ShapeExpr, TensorStructInfo
from tilesmith.relay.expr import Call, Constant, Tuple, Var
from tilesmith.relay.function import Function
from tilesmith.relay.walks import post_order
from tilesmith.runtime.module import Module
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import UnsupportedError

__all__ = ["generate", "supports"]

_SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}
_TYPES = {"float32": "float", "float64": "double", "int32": "int32_t", "int64": "int64_t"}


def _known(expr: Any) -> tuple[list[int], str] | None:
    """Return the sizes and the dtype of a value whose sizes are constants, of a dtype of C."""
    info = known_struct_info(expr)
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        return None
    sizes = [size.value for size in info.shape.values if isinstance(size, IntImm)]
    if len(sizes) != len(info.shape.values) or str(info.dtype) not in _TYPES:
        return None
    return sizes, str(info.dtype)


def supports(call: Call) -> bool:
    """Return whether a call can be written as C: known sizes, one dtype."""
    values = [_known(one) for one in (*call.args, call)]
    return None not in values and len({one[1] for one in values if one is not None}) == 1


for _name in _SIGNS:
    register_op_attr(_name, "target.ccompiler", supports)


class _Writer:
    """Writes one function of C: a loop for each call."""

    def __init__(self, function: Function, symbol: str) -> None:
        self.function = function
        self.symbol = symbol
        self.names: dict[int, str] = {}
        self.constants: list[str] = []
        self.lines: list[str] = []
        self.temporaries: list[str] = []

    def text(self) -> str:
        """Return the source of the file."""
        body = self.function.body
        results = list(body.fields) if isinstance(body, Tuple) else [body]
        arguments = []
        for place, param in enumerate(self.function.params):
            self.names[id(param)] = f"in{place}"
            arguments.append((self._type(param), f"in{place}"))
        for node in post_order(self.function.body):
            self._node(node)
        for place, result in enumerate(results):
            kind = self._type(result)
            count = _count(self._sizes(result)[0])
            arguments.append((kind, f"out{place}"))
            copied = f"memcpy(out{place}, {self.names[id(result)]}, {count} * sizeof({kind}));"
            self.lines.append(copied)
        params = ", ".join([f"{kind}* {name}" for kind, name in arguments])
        freed = [f"free({name});" for name in self.temporaries]
        inner = "\n  ".join([*self.lines, *freed, "return 0;"])
        parts = [
            "#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n",
            PACKED_INTERFACE,
            *self.constants,
            f"static int {self.symbol}_({params}) {{\n  {inner}\n}}\n",
            packed_wrapper(self.symbol, f"{self.symbol}_", [kind for kind, _ in arguments]),
        ]
        return "\n".join(parts)

    def _sizes(self, node: Any) -> tuple[list[int], str]:
        found = _known(node)
        if found is None:
            raise UnsupportedError(
                f"ccompiler: a value of '{self.symbol}' is {known_struct_info(node)}",
                notes=(f"it takes tensors of known sizes of {', '.join(_TYPES)}",),
            )
        return found

    def _type(self, node: Any) -> str:
        return _TYPES[self._sizes(node)[1]]

    def _node(self, node: Any) -> None:
        if isinstance(node, Constant):
            name = f"{self.symbol}_c{len(self.constants)}"
            values = ", ".join([_number(one) for one in node.data.numpy().reshape(-1)])
            self.constants.append(f"static const {self._type(node)} {name}[] = {{{values}}};")
            self.names[id(node)] = name
        elif isinstance(node, Call):
            self._call(node)
        elif not isinstance(node, (Op, Var, Tuple)):
            raise UnsupportedError(f"ccompiler: '{self.symbol}' holds a {type(node).__name__}")

    def _call(self, call: Call) -> None:
        sign = _SIGNS.get(call.op.name) if isinstance(call.op, Op) else None
        if sign is None:
            raise UnsupportedError(
                f"ccompiler: '{self.symbol}' calls {call.op}",
                notes=(f"it takes {', '.join(_SIGNS)}",),
            )
        kind, (sizes, _) = self._type(call), self._sizes(call)
        name = f"t{len(self.temporaries)}"
        self.temporaries.append(name)
        self.names[id(call)] = name
        count = _count(sizes)
        self.lines += [
            f"{kind}* {name} = malloc({max(count, 1)} * sizeof({kind}));",
            f'if (!{name}) {{ TVMFFIErrorSetRaisedFromCStr("MemoryError", "{self.symbol}"); '
            "return -1; }",
        ]
        left, right = [
            f"{self.names[id(arg)]}[{_place(self._sizes(arg)[0], sizes)}]" for arg in call.args
        ]
        self.lines.append(
            f"for (int64_t i = 0; i < {count}; ++i) {name}[i] = {left} {sign} {right};"
        )


def _count(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _number(value: Any) -> str:
    plain = value.item()
    if isinstance(plain, float):
        if plain != plain:
            return '__builtin_nan("")'
        if plain in (float("inf"), float("-inf")):
            return f"{'-' if plain < 0 else ''}__builtin_inf()"
        return plain.hex()
    return f"INT64_C({plain})"


def _place(sizes: Sequence[int], result: Sequence[int]) -> str:
    """Return where the element for number ``i`` of a result is in an operand that is broadcast."""
    if list(sizes) == list(result):
        return "i"
    terms = []
    padded = [1] * (len(result) - len(sizes)) + list(sizes)
    stride, behind = 1, 1
    for own, whole in zip(reversed(padded), reversed(result)):
        if own != 1:
            terms.append(f"i / {behind} % {whole} * {stride}")
            stride *= own
        behind *= whole
    return " + ".join(terms) or "0"


@register_func("relay.ext.ccompiler", override=True)
def generate(function: Function) -> Module:
    """Return a module of C source for a partitioned function."""
    symbol = str(function.attrs["global_symbol"])
    return c_source_module(_Writer(function, symbol).text(), "c", [symbol])
