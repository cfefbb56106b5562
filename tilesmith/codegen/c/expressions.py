"""Scalar and vector expressions as C99 text.

A vector expression is written for one lane: the statement around it loops over `lane`. Text and
precedence travel together, so that parentheses appear only where C needs them (or readers do).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.codegen.c.helpers import c_string, c_type, constant, float_text, is_narrow, short
from tilesmith.codegen.facts import Facts, may_fault
from tilesmith.ir import Broadcast, Dispatcher, FloatImm, IntImm, PrimExpr, Ramp, StringImm, Var
from tilesmith.ir import expr as ir
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.support.errors import CodegenError
from tilesmith.tir.expr import BufferLoad

if TYPE_CHECKING:
    from tilesmith.codegen.c.module import ModuleWriter

Piece = tuple[str, int]
ATOM, UNARY, PRODUCT, SUM, SHIFT, COMPARE, EQUAL = 15, 14, 13, 12, 11, 10, 9
BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = 8, 7, 6, 5, 4, 3

_OPERATORS = {"Add": ("+", SUM), "Sub": ("-", SUM), "Mul": ("*", PRODUCT)}
_COMPARE = {
    "EQ": ("==", EQUAL), "NE": ("!=", EQUAL), "LT": ("<", COMPARE), "LE": ("<=", COMPARE),
    "GT": (">", COMPARE), "GE": (">=", COMPARE),
}  # fmt: skip
FLOAT32 = DataType("float32")


class ExpressionWriter(Dispatcher[Piece]):
    """Writes expressions; what has to stand before them goes into `lines`."""

    def __init__(self, module: ModuleWriter, name: str) -> None:
        self.module = module
        self.name = name
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[Var, str] = {}
        self.arrays: set[Var] = set()  # vector variables, kept as arrays
        self.taken: set[str] = set()
        self.pointer_types: dict[Var, DataType | None] = {}
        self.facts = Facts()
        self.lane: str | None = None  # the lane that is being written
        self.guarded = 0  # inside a branch that may not be taken
        self._shared: dict[int, int] = {}
        self._known: dict[int, tuple[PrimExpr, str]] = {}

    # -- writing

    def write(self, line: str) -> None:
        """Write a line at the present depth."""
        self.lines.append("  " * self.indent + line if line else "")

    def fresh(self, hint: str) -> str:
        """A name that nothing else in the function has."""
        from tilesmith.codegen.c.helpers import identifier

        base = name = identifier(hint)
        number = 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def unsupported(self, what: str, *notes: str) -> CodegenError:
        """The error for something that C code cannot be made of."""
        return CodegenError(f"function '{self.name}': {what}", notes=notes)

    def begin_statement(self, *roots: PrimExpr) -> None:
        """Look which expressions occur more than once: they are computed once."""
        counts: dict[int, int] = {}

        def count(node: Any) -> None:
            if isinstance(node, PrimExpr):
                counts[id(node)] = counts.get(id(node), 0) + 1
                if counts[id(node)] == 1:
                    node.for_each_child(count)

        for root in roots:
            count(root)
        self._shared = {key: number for key, number in counts.items() if number > 1}
        self._known = {}
        self.facts.forget()

    def text(self, expr: PrimExpr, least: int = 0) -> str:
        """An expression as text, in parentheses if it binds weaker than `least`."""
        if id(expr) in self._shared and not isinstance(expr, (Var, IntImm, FloatImm, StringImm)):
            return self._once(expr, least)
        written, precedence = self.visit(expr)
        return f"({written})" if precedence < least else written

    def _once(self, expr: PrimExpr, least: int) -> str:
        known = self._known.get(id(expr))
        if known is not None:
            return known[1]
        written, precedence = self.visit(expr)
        if precedence == ATOM and len(written) < 12 or self.guarded and may_fault(expr):
            return f"({written})" if precedence < least else written
        if expr.dtype.is_handle or expr.dtype.is_void:
            return f"({written})" if precedence < least else written
        name = self.fresh("common")
        self.write(f"const {c_type(expr.dtype)} {name} = {written};")
        self._known[id(expr)] = (expr, name)
        return name

    # -- leaves

    def visit_default(self, node: Any) -> Piece:
        raise self.unsupported(
            f"{type(node).__name__} has no translation into C",
            "lowering removes blocks and tensor expressions before code is generated",
        )

    def visit_IntImm(self, expr: IntImm) -> Piece:
        return constant(expr.value, expr.dtype), ATOM if expr.value >= 0 else UNARY

    def visit_FloatImm(self, expr: FloatImm) -> Piece:
        return constant(expr.value, expr.dtype), ATOM if expr.value >= 0 else UNARY

    def visit_StringImm(self, expr: StringImm) -> Piece:
        return f"(void*){c_string(expr.value)}", UNARY

    def visit_Var(self, var: Var) -> Piece:
        name = self.names.get(var)
        if name is None:
            raise self.unsupported(f"variable '{var.name}' is not defined here")
        return (f"{name}[{self.lane}]" if var in self.arrays else name), ATOM

    def visit_Let(self, let: ir.Let) -> Piece:
        self.define(let.var, self.text(let.value))
        if self.facts.is_non_negative(let.value):
            self.facts.non_negative.add(let.var)
        return self.visit(let.body)

    def define(self, var: Var, value: str) -> None:
        """Declare a variable with a value; of a vector, the lane that is being written."""
        self.names[var] = self.fresh(var.name)
        self.write(f"const {c_type(var.dtype)} {self.names[var]} = {value};")

    # -- vectors, one lane at a time

    def at_lane(self, expr: PrimExpr, lane: str, least: int = 0) -> str:
        """One lane of a vector expression; scalars are what they are."""
        outer, self.lane = self.lane, lane
        written = self.text(expr, least)
        self.lane = outer
        return written

    def visit_Ramp(self, ramp: Ramp) -> Piece:
        step = f"{self.lane} * {self.text(ramp.stride, PRODUCT)}"
        if isinstance(ramp.stride, IntImm) and ramp.stride.value == 1:
            step = str(self.lane)
        if isinstance(ramp.base, IntImm) and ramp.base.value == 0:
            return step, PRODUCT if "*" in step else ATOM
        return f"{self.text(ramp.base, SUM)} + {step}", SUM

    def visit_Broadcast(self, expr: Broadcast) -> Piece:
        return self.visit(expr.value) if id(expr.value) not in self._shared else (
            self.text(expr.value, ATOM), ATOM
        )  # fmt: skip

    def visit_Shuffle(self, shuffle: ir.Shuffle) -> Piece:
        total = sum(vector.dtype.lanes for vector in shuffle.vectors)
        kind = c_type(shuffle.dtype)
        outer, self.lane = self.lane, None
        elements = self.fresh("elements")
        self.write(f"{kind} {elements}[{total}];")
        start = 0
        for vector in shuffle.vectors:
            for lane in range(vector.dtype.lanes):
                self.write(f"{elements}[{start + lane}] = {self.at_lane(vector, str(lane))};")
            start += vector.dtype.lanes
        self.lane = outer
        if len(shuffle.indices) == 1:
            return f"{elements}[{self.text(shuffle.indices[0])}]", ATOM
        picked = ", ".join([self.text(index) for index in shuffle.indices])
        table = self.fresh("picked")
        self.write(f"const int {table}[{len(shuffle.indices)}] = {{{picked}}};")
        return f"{elements}[{table}[{self.lane}]]", ATOM

    # -- arithmetic

    def narrowed(self, written: Piece, dtype: DataType) -> Piece:
        """The result of integer arithmetic in its own type: C computes small types as int."""
        if dtype.is_integer and dtype.bits < 8:
            return f"{self.module.helper('wrap_' + short(dtype))}({written[0]})", ATOM
        if dtype.is_integer and dtype.bits < 32:
            return f"({c_type(dtype)})({written[0]})", UNARY
        return written

    def widened(self, expr: PrimExpr, least: int = 0) -> str:
        """A float operand as C computes it: float16 and bfloat16 as float."""
        if not is_narrow(expr.dtype):
            return self.text(expr, least)
        if isinstance(expr, FloatImm):
            return float_text(expr.value, FLOAT32)
        return f"{self.module.helper(short(expr.dtype) + '_to_f32')}({self.text(expr)})"

    def shortened(self, written: str, dtype: DataType) -> Piece:
        """A float result in its own type."""
        if not is_narrow(dtype):
            return written, ATOM
        return f"{self.module.helper('f32_to_' + short(dtype))}({written})", ATOM

    def binary(self, expr: ir.BinaryOp, operator: str, precedence: int) -> Piece:
        """`a operator b`; the right operand is bracketed where it binds as weakly."""
        a, b = self.widened(expr.a, precedence), self.widened(expr.b, precedence + 1)
        if is_narrow(expr.a.dtype) and is_narrow(expr.dtype):
            return self.shortened(f"{a} {operator} {b}", expr.dtype)
        return self.narrowed((f"{a} {operator} {b}", precedence), expr.dtype)

    def _arithmetic(self, expr: ir.BinaryOp) -> Piece:
        name = type(expr).__name__
        if expr.dtype.is_bool:
            operator, precedence = {
                "Add": ("|", BIT_OR),
                "Sub": ("^", BIT_XOR),
                "Mul": ("&", BIT_AND),
            }[name]
            return self.binary(expr, operator, precedence)
        return self.binary(expr, *_OPERATORS[name])

    visit_Add = visit_Sub = visit_Mul = _arithmetic

    def visit_Div(self, expr: ir.Div) -> Piece:
        return self.binary(expr, "/", PRODUCT)

    def visit_Mod(self, expr: ir.Mod) -> Piece:
        if expr.dtype.is_float:
            return self.function("fmod", [expr.a, expr.b], expr.dtype)
        return self.binary(expr, "%", PRODUCT)

    def visit_FloorDiv(self, expr: ir.FloorDiv) -> Piece:
        if expr.dtype.is_float:
            return self._floored_quotient(expr), ATOM
        return self._floor(expr, "floordiv", "/")

    def visit_FloorMod(self, expr: ir.FloorMod) -> Piece:
        if expr.dtype.is_float:
            a, b = self.widened(expr.a, PRODUCT), self.widened(expr.b, UNARY)
            product = f"{self._rounded(self._floored_quotient(expr), expr.dtype)} * {b}"
            written, _ = self.shortened(f"{a} - {self._step(product, expr.dtype)}", expr.dtype)
            return written, ATOM if is_narrow(expr.dtype) else SUM
        return self._floor(expr, "floormod", "%")

    def _rounded(self, written: str, dtype: DataType) -> str:
        """A value of a narrow dtype as the float that it is."""
        if not is_narrow(dtype):
            return written
        return f"{self.module.helper(short(dtype) + '_to_f32')}({written})"

    def _step(self, written: str, dtype: DataType) -> str:
        """An intermediate result of a narrow dtype, rounded as each operation is."""
        return self._rounded(self.shortened(written, dtype)[0], dtype)

    def _floored_quotient(self, expr: ir.BinaryOp) -> str:
        quotient = f"{self.widened(expr.a, PRODUCT)} / {self.widened(expr.b, UNARY)}"
        floored = f"floor{self.suffix(expr.dtype)}({self._step(quotient, expr.dtype)})"
        return self.shortened(floored, expr.dtype)[0]

    def _floor(self, expr: ir.BinaryOp, name: str, operator: str) -> Piece:
        simple = self.facts.is_non_negative(expr.a) and self.facts.is_non_negative(expr.b)
        if expr.dtype.is_uint or simple:
            return self.binary(expr, operator, PRODUCT)
        helper = self.module.helper(name, expr.dtype)
        return f"{helper}({self.text(expr.a)}, {self.text(expr.b)})", ATOM

    def visit_Min(self, expr: ir.Min) -> Piece:
        return self._extreme(expr, "min")

    def visit_Max(self, expr: ir.Max) -> Piece:
        return self._extreme(expr, "max")

    def _extreme(self, expr: ir.BinaryOp, name: str) -> Piece:
        dtype = FLOAT32 if is_narrow(expr.dtype) else expr.dtype.element
        helper = self.module.helper(name, dtype)
        return self.shortened(
            f"{helper}({self.widened(expr.a)}, {self.widened(expr.b)})", expr.dtype
        )

    def visit_CompareOp(self, expr: ir.CompareOp) -> Piece:
        operator, precedence = _COMPARE[type(expr).__name__]
        a = self.widened(expr.a, precedence + 1)
        return f"{a} {operator} {self.widened(expr.b, precedence + 1)}", precedence

    def visit_And(self, expr: ir.And) -> Piece:
        return f"{self.text(expr.a, AND)} && {self.text(expr.b, AND)}", AND

    def visit_Or(self, expr: ir.Or) -> Piece:
        # brackets around && inside ||: compilers and readers like them
        return f"{self.text(expr.a, EQUAL)} || {self.text(expr.b, EQUAL)}", OR

    def visit_Not(self, expr: ir.Not) -> Piece:
        return f"!{self.text(expr.a, UNARY)}", UNARY

    def visit_Select(self, expr: ir.Select) -> Piece:
        return self.choice(expr.condition, expr.true_value, expr.false_value)

    def choice(self, condition: PrimExpr, true: PrimExpr, false: PrimExpr) -> Piece:
        """`condition ? true : false`."""
        chosen = self.text(condition, OR)
        self.guarded += 1
        written = f"{chosen} ? {self.text(true, OR)} : {self.text(false, CHOICE)}"
        self.guarded -= 1
        return written, CHOICE

    # -- conversions

    def visit_Cast(self, expr: ir.Cast) -> Piece:
        source, target = expr.value.dtype.element, expr.dtype.element
        if source is target:
            return self.visit(expr.value)
        if is_narrow(target):
            inner = self.widened(expr.value, UNARY)
            if source.bits >= 32 and source != "float32":  # a float would round a first time
                odd = self.module.helper("f64_to_odd_f32")
                inner = f"{odd}({inner if source.is_float else '(double)' + inner})"
            return self.shortened(inner, expr.dtype)
        if is_narrow(source):
            inner = self.widened(expr.value)
            return (inner, ATOM) if target == "float32" else self._cast(target, inner)
        return self._cast(target, self.text(expr.value, UNARY))

    def _cast(self, target: DataType, inner: str) -> Piece:
        if target.is_bool:
            return f"{inner} != 0", EQUAL
        if is_packed(target):
            return f"{self.module.helper('wrap_' + short(target))}((int32_t){inner})", ATOM
        return f"({c_type(target)}){inner}", UNARY

    # -- functions of math.h

    def suffix(self, dtype: DataType) -> str:
        """`f` for functions of float."""
        return "" if dtype.bits == 64 else "f"

    def function(self, name: str, args: list[PrimExpr], dtype: DataType) -> Piece:
        """A function of `math.h` on floats."""
        arguments = ", ".join([self.widened(arg) for arg in args])
        return self.shortened(f"{name}{self.suffix(dtype)}({arguments})", dtype)

    # -- loads

    def visit_BufferLoad(self, load: BufferLoad) -> Piece:
        if is_packed(load.buffer.dtype):
            base, place = self.place(load)
            helper = self.module.helper("load_" + short(load.buffer.dtype))
            found = f"{helper}({base}, {place})"
        else:
            found = self.element(load)
        if load.predicate is not None:
            on = self.text(load.predicate, OR)
            return f"{on} ? {found} : 0", CHOICE
        return found, ATOM

    def element(self, access: Any) -> str:
        """The C lvalue of an access at the present lane."""
        return "{}[{}]".format(*self.place(access))

    def place(self, access: Any) -> tuple[str, str]:
        """Pointer and index of an access at the present lane."""
        buffer = access.buffer
        if len(access.indices) > 1:
            raise self.unsupported(
                f"buffer '{buffer.name}' is accessed with {len(access.indices)} indices",
                "FlattenBuffer has to run before code is generated",
            )
        unit = buffer.dtype.lanes
        if not access.indices:
            place = "0" if unit == 1 else str(self.lane)
        elif unit == 1:
            place = self.text(access.indices[0])
        elif access.indices[0].dtype.lanes == 1:
            place = f"{self.text(access.indices[0], PRODUCT)} * {unit} + {self.lane}"
        else:
            which = self.at_lane(access.indices[0], f"({self.lane} / {unit})", PRODUCT)
            place = f"{which} * {unit} + {self.lane} % {unit}"
        return self.pointer(buffer.data, buffer.dtype.element), place

    def pointer(self, var: Var, element: DataType) -> str:
        """A pointer variable as a pointer to `element`."""
        name = self.names.get(var)
        if name is None:
            raise self.unsupported(f"buffer '{var.name}' is not defined here")
        if self.pointer_types.get(var) is element:
            return name
        return f"(({c_type(element)}*){name})"
