"""Scalar and vector expressions as LLVM text.

A value is the text of an operand: a local name or a constant. Its LLVM type follows from the
expression's dtype. Choices of meaning:

* `Min(a, b)` and `Max(a, b)` of floats give `a` unless `b` is smaller (greater), as Python's `min`
  and `max` do: one instruction (`minps`, `maxps`). A NaN in `a` is kept, one in `b` is dropped.
* Float additions and multiplications carry the flag `contract`: `a * b + c` may be rounded once
  (FMA). Nothing is reordered unless the target says `-fast-math`.
* float16 and bfloat16 are computed in float32 and rounded after each operation, unless the CPU
  has float16 arithmetic.
* Signed arithmetic of indices does not overflow (`nsw`); arithmetic of data wraps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.codegen.facts import Facts
from tilesmith.codegen.llvm import conversions, dtypes
from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.ir import Broadcast, Dispatcher, FloatImm, IntImm, PrimExpr, StringImm, Var
from tilesmith.ir import expr as ir
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError
from tilesmith.tir.queries import reads_memory, uses_variable

if TYPE_CHECKING:
    from tilesmith.codegen.llvm.module import ModuleEmitter

FLOAT32 = DataType("float32")

_INTEGER_DIVISION = {"sdiv": "udiv", "srem": "urem"}
# Comparisons: of floats, of signed and of unsigned numbers.
_COMPARE = {
    "EQ": ("oeq", "eq", "eq"),
    "NE": ("une", "ne", "ne"),
    "LT": ("olt", "slt", "ult"),
    "LE": ("ole", "sle", "ule"),
    "GT": ("ogt", "sgt", "ugt"),
    "GE": ("oge", "sge", "uge"),
}
_BOOLEAN = {"add": "or", "sub": "xor", "mul": "and"}


class ExpressionEmitter(Dispatcher[str]):
    """Writes instructions for expressions into `lines` and gives back their operands."""

    def __init__(self, module: ModuleEmitter, name: str) -> None:
        self.module = module
        self.name = name  # of the function, for messages
        self.lines: list[str] = []
        self.variables: dict[Var, str] = {}
        self.facts = Facts()
        self.block = "entry"  # label of the block that is being written
        self.uses_vectors = False  # set by vector loads and stores: such loops are finished
        self.loop_vars: list[Var] = []  # of the loops around what is being written
        self.wrapping: set[Var] = set()  # those that come in modulo a power of two
        self.mask: tuple[str, int] | None = None  # lanes that are on, inside a vector choice
        self._memo: dict[int, str] = {}
        self._kept: list[PrimExpr] = []  # keeps the keys of the memo alive
        self._epoch = 0
        self._in_index = 0
        self._count = 0

    # -- writing

    def define(self, instruction: str, hint: str = "v") -> str:
        """Write an instruction; the name of its result."""
        self._count += 1
        name = f"%{hint}.{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def write(self, instruction: str) -> None:
        """Write an instruction without result."""
        self.lines.append("  " + instruction)

    def label(self, hint: str) -> str:
        """A new label."""
        self._count += 1
        return f"{hint}.{self._count}"

    def begin_block(self, label: str) -> None:
        """Write a label: what follows belongs to this block."""
        self.lines.append(label + ":")
        self.block = label

    def unsupported(self, what: str, *notes: str) -> CodegenError:
        """The error for something that this back end cannot translate."""
        return CodegenError(f"function '{self.name}': {what}", notes=notes)

    # -- values

    def value(self, expr: PrimExpr) -> str:
        """The operand that holds `expr`; what is met twice in a statement is computed once."""
        found = self._memo.get(id(expr))
        if found is None:
            epoch = self._epoch
            found = self.visit(expr)
            if epoch == self._epoch:  # else a call with effects is inside: it is never shared
                self._memo[id(expr)] = found
                self._kept.append(expr)
        return found

    def forget(self) -> None:
        """Nothing computed so far holds any more (a new statement, a call with effects)."""
        self._epoch += 1
        self.facts.forget()
        if self._memo:
            self._memo = {}
            self._kept = []

    def typed(self, expr: PrimExpr) -> str:
        """An operand with its type."""
        return f"{register_type(expr.dtype)} {self.value(expr)}"

    def index(self, expr: PrimExpr) -> str:
        """The operand of an index expression, whose arithmetic does not overflow."""
        self._in_index += 1
        value = self.value(expr)
        self._in_index -= 1
        return value

    def index64(self, expr: PrimExpr) -> str:
        """A scalar index as an i64."""
        if isinstance(expr, IntImm):
            return str(expr.value)
        return self.extended(self.index(expr), expr, "i64")

    def extended(self, value: str, expr: PrimExpr, to: str) -> str:
        """An integer extended to a wider (or equal) LLVM type."""
        source = register_type(expr.dtype)
        if source == to:
            return value
        if expr.dtype.is_bool or expr.dtype.is_uint:
            return self.define(f"zext {source} {value} to {to}")
        if self.facts.is_non_negative(expr):
            return self.define(f"zext nneg {source} {value} to {to}")
        return self.define(f"sext {source} {value} to {to}")

    # -- leaves

    def visit_default(self, node: Any) -> str:
        raise self.unsupported(f"LLVM code cannot be made from {type(node).__name__} ({node!r})")

    def visit_IntImm(self, expr: IntImm) -> str:
        return dtypes.integer_constant(expr.value, expr.dtype)

    def visit_FloatImm(self, expr: FloatImm) -> str:
        return dtypes.float_constant(expr.value, expr.dtype)

    def visit_StringImm(self, expr: StringImm) -> str:
        return self.module.text_constant(expr.value)

    def visit_Var(self, var: Var) -> str:
        try:
            return self.variables[var]
        except KeyError:
            raise self.unsupported(
                f"variable '{var.name}' is not defined here",
                "every variable must be a parameter or be bound by a loop or a let",
            ) from None

    def visit_Let(self, let: ir.Let) -> str:
        self.variables[let.var] = self.value(let.value)
        if let.var.dtype.is_integer and self.facts.is_non_negative(let.value):
            self.facts.non_negative.add(let.var)
        return self.value(let.body)

    # -- vectors

    def visit_Ramp(self, ramp: ir.Ramp) -> str:
        dtype, lanes = ramp.dtype, ramp.lanes
        if dtype.is_scalable:
            return self._scalable_ramp(ramp)
        if isinstance(ramp.stride, IntImm):
            element = register_type(dtype.element)
            steps = [dtypes.integer_constant(lane * ramp.stride.value, dtype.element)
                     for lane in range(lanes)]  # fmt: skip
            offsets = "<" + ", ".join([f"{element} {step}" for step in steps]) + ">"
            if isinstance(ramp.base, IntImm) and ramp.base.value == 0:
                return offsets
        else:
            counting = self.visit_Ramp(ir.Ramp(IntImm(dtype.element, 0), 1, lanes))
            stride = self.broadcast(self.value(ramp.stride), dtype)
            offsets = self.define(
                f"mul{self._nsw(dtype)} {register_type(dtype)} {stride}, {counting}"
            )
        base = self.broadcast(self.value(ramp.base), dtype)
        return self.define(f"add{self._nsw(dtype)} {register_type(dtype)} {base}, {offsets}")

    def _scalable_ramp(self, ramp: ir.Ramp) -> str:
        dtype, kind = ramp.dtype, register_type(ramp.dtype)
        self.module.needs_scalable_vectors(self)
        steps = self.define(f"call {kind} @llvm.stepvector()")
        if not (isinstance(ramp.stride, IntImm) and ramp.stride.value == 1):
            stride = self.broadcast(self.value(ramp.stride), dtype)
            steps = self.define(f"mul{self._nsw(dtype)} {kind} {steps}, {stride}")
        base = self.broadcast(self.value(ramp.base), dtype)
        return self.define(f"add{self._nsw(dtype)} {kind} {base}, {steps}")

    def visit_Broadcast(self, expr: Broadcast) -> str:
        if isinstance(expr.value, (IntImm, FloatImm)):
            return dtypes.splat(self.value(expr.value), expr.dtype)
        return self.broadcast(self.value(expr.value), expr.dtype)

    def broadcast(self, value: str, dtype: DataType) -> str:
        """A scalar in all lanes of the vector type `dtype`."""
        if dtype.lanes == 1:
            return value
        if value[0] != "%":
            return dtypes.splat(value, dtype)
        vector, element = register_type(dtype), register_type(dtype.element)
        first = self.define(f"insertelement {vector} poison, {element} {value}, i64 0")
        zeros = f"<{dtype.lanes} x i32> zeroinitializer"
        return self.define(f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    def lane(self, vector: str, dtype: DataType, number: int) -> str:
        """One lane of a vector value of type `dtype`."""
        if dtype.lanes == 1:
            return vector
        self.fixed_lanes(dtype)
        return self.define(f"extractelement {register_type(dtype)} {vector}, i64 {number}")

    def from_lanes(self, lanes: list[str], dtype: DataType) -> str:
        """The vector of type `dtype` made from scalar operands."""
        if dtype.lanes == 1:
            return lanes[0]
        self.fixed_lanes(dtype)
        vector, element = register_type(dtype), register_type(dtype.element)
        made = "poison"
        for number, lane in enumerate(lanes):
            made = self.define(f"insertelement {vector} {made}, {element} {lane}, i64 {number}")
        return made

    def fixed_lanes(self, dtype: DataType) -> None:
        """Lanes can be taken one by one only where their number is known."""
        if dtype.is_scalable:
            raise self.unsupported(
                f"an operation on a scalable vector ({dtype}) goes lane by lane",
                "use arithmetic, comparisons, loads and stores; or vectors of a fixed length",
            )

    def visit_Shuffle(self, shuffle: ir.Shuffle) -> str:
        sources = [(self.value(vector), vector.dtype) for vector in shuffle.vectors]
        if not all(isinstance(index, IntImm) for index in shuffle.indices):
            return self._dynamic_shuffle(shuffle, sources)
        picked = [index.value for index in shuffle.indices]  # type: ignore[attr-defined]
        total = sum([dtype.lanes for _, dtype in sources])
        if any(not 0 <= number < total for number in picked):
            raise self.unsupported(f"Shuffle picks elements {picked} out of {total}")
        same = all(dtype is sources[0][1] for _, dtype in sources)
        if len(sources) <= 2 and same and sources[0][1].lanes > 1 and len(picked) > 1:
            vector = register_type(sources[0][1])
            other = sources[1][0] if len(sources) == 2 else "poison"
            return self.shuffle(vector, sources[0][0], other, picked)
        places = [(value, dtype, lane) for value, dtype in sources for lane in range(dtype.lanes)]
        return self.from_lanes([self.lane(*places[number]) for number in picked], shuffle.dtype)

    def shuffle(self, vector: str, first: str, second: str, picked: list[int]) -> str:
        """`shufflevector` of two vectors of LLVM type `vector`."""
        if vector.startswith("<vscale"):
            raise self.unsupported("lanes of a scalable vector cannot be picked by number")
        numbers = ", ".join([f"i32 {number}" for number in picked])
        mask = f"<{len(picked)} x i32> <{numbers}>"
        return self.define(f"shufflevector {vector} {first}, {vector} {second}, {mask}")

    def _dynamic_shuffle(self, shuffle: ir.Shuffle, sources: list[tuple[str, DataType]]) -> str:
        if len(sources) == 1:
            joined, dtype = sources[0]
        else:
            dtype = shuffle.dtype.with_lanes(sum([source.lanes for _, source in sources]))
            parts = [
                self.lane(value, source, lane)
                for value, source in sources
                for lane in range(source.lanes)
            ]
            joined = self.from_lanes(parts, dtype)
        lanes = [
            self.define(f"extractelement {register_type(dtype)} {joined}, {self.typed(index)}")
            for index in shuffle.indices
        ]
        return self.from_lanes(lanes, shuffle.dtype)

    # -- arithmetic

    def _nsw(self, dtype: DataType) -> str:
        return " nsw" if self._in_index and dtype.is_int and dtype.bits >= 32 else ""

    def arithmetic(self, integer: str, floating: str, a: str, b: str, dtype: DataType) -> str:
        """`add`, `sub` or `mul` with their names for floats."""
        if dtype.is_float:
            return self.float_operation(f"{floating}{self.module.float_flags}", [a, b], dtype)
        if dtype.is_bool:
            return self.define(f"{_BOOLEAN[integer]} {register_type(dtype)} {a}, {b}")
        if not dtype.is_integer:
            raise self.unsupported(f"no arithmetic on values of '{dtype}'")
        return self.define(f"{integer}{self._nsw(dtype)} {register_type(dtype)} {a}, {b}")

    def float_operation(self, operation: str, values: list[str], dtype: DataType) -> str:
        """An instruction on floats (`fadd contract`); narrow ones are computed in float32."""
        if self.module.computes_directly(dtype):
            return self.define(f"{operation} {register_type(dtype)} {', '.join(values)}")
        wide = FLOAT32.with_lanes(dtype.lanes)
        widened = [self.convert(value, dtype, wide) for value in values]
        result = self.define(f"{operation} {register_type(wide)} {', '.join(widened)}")
        return self.convert(result, wide, dtype)

    def visit_Add(self, expr: ir.Add) -> str:
        return self.arithmetic("add", "fadd", self.value(expr.a), self.value(expr.b), expr.dtype)

    def visit_Sub(self, expr: ir.Sub) -> str:
        return self.arithmetic("sub", "fsub", self.value(expr.a), self.value(expr.b), expr.dtype)

    def visit_Mul(self, expr: ir.Mul) -> str:
        return self.arithmetic("mul", "fmul", self.value(expr.a), self.value(expr.b), expr.dtype)

    def visit_Div(self, expr: ir.Div) -> str:
        if expr.dtype.is_float:
            values = [self.value(expr.a), self.value(expr.b)]
            return self.float_operation(f"fdiv{self.module.float_flags}", values, expr.dtype)
        return self._truncated("sdiv", expr)

    def visit_Mod(self, expr: ir.Mod) -> str:
        if expr.dtype.is_float:
            return self.float_operation(
                "frem", [self.value(expr.a), self.value(expr.b)], expr.dtype
            )
        if _power_of_two(expr.b) is not None:
            self.note_wrapping(expr.a)
        return self._truncated("srem", expr)

    def _truncated(self, operation: str, expr: ir.BinaryOp) -> str:
        """A division that rounds toward zero; unsigned where both operands are not negative."""
        a, b = self.value(expr.a), self._divisor(expr)
        dtype = expr.dtype
        unsigned = dtype.is_uint or (
            self.facts.is_non_negative(expr.a) and self.facts.is_non_negative(expr.b)
        )
        name = _INTEGER_DIVISION[operation] if unsigned else operation
        return self.define(f"{name} {register_type(dtype)} {a}, {b}")

    def _divisor(self, expr: ir.BinaryOp) -> str:
        """The divisor, with ones in lanes that are off: those must not trap."""
        divisor = self.value(expr.b)
        if self.mask is None or constant_value(expr.b) is not None:
            return divisor
        dtype, (mask, lanes) = expr.dtype, self.mask
        one = self.broadcast("1", dtype)
        if dtype.lanes != lanes:
            mask, lanes = self.any_lane(), 1
        condition = f"<{lanes} x i1> {mask}" if lanes > 1 else f"i1 {mask}"
        kind = register_type(dtype)
        return self.define(f"select {condition}, {kind} {divisor}, {kind} {one}")

    def any_lane(self) -> str:
        """Whether some lane of the present mask is on."""
        assert self.mask is not None
        mask, lanes = self.mask
        return self.define(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {mask})")

    def visit_FloorDiv(self, expr: ir.FloorDiv) -> str:
        dtype = expr.dtype
        if dtype.is_float:
            quotient = self.visit_Div(ir.Div(expr.a, expr.b))
            return self.intrinsic("floor", [quotient], dtype)
        shift = _power_of_two(expr.b)
        if shift is not None:
            name = "lshr" if self.facts.is_non_negative(expr.a) else "ashr"
            amount = self.broadcast(str(shift), dtype)
            return self.define(f"{name} {register_type(dtype)} {self.value(expr.a)}, {amount}")
        if self._is_simple(expr):
            return self._truncated("sdiv", expr)
        kind = register_type(dtype)
        a, b = self.value(expr.a), self._divisor(expr)
        quotient = self.define(f"sdiv {kind} {a}, {b}")
        wrong = self._has_wrong_sign(expr, self.define(f"srem {kind} {a}, {b}"), b)
        minus_one = self.define(f"sext {_bool_type(dtype)} {wrong} to {kind}")
        return self.define(f"add {kind} {quotient}, {minus_one}")

    def note_wrapping(self, dividend: PrimExpr) -> None:
        """Note that variables of loops are reduced by a mask: LLVM 22 then takes addresses for
        consecutive that wrap around, and makes one wide load of them. An outer loop is vectorised,
        too, when those in it have been unrolled."""
        if self.wrapping.issuperset(self.loop_vars) or reads_memory(dividend):
            return
        self.wrapping.update([one for one in self.loop_vars if uses_variable(dividend, {one})])

    def visit_FloorMod(self, expr: ir.FloorMod) -> str:
        dtype = expr.dtype
        if dtype.is_float:
            a, b = self.value(expr.a), self.value(expr.b)
            quotient = self.visit_FloorDiv(ir.FloorDiv(expr.a, expr.b))
            # not fused: the rounding of the product is what makes 1.0 % 0.1 what it is elsewhere
            product = self.float_operation("fmul", [quotient, b], dtype)
            return self.float_operation("fsub", [a, product], dtype)
        shift = _power_of_two(expr.b)
        if shift is not None:
            self.note_wrapping(expr.a)
            mask = self.broadcast(dtypes.integer_constant((1 << shift) - 1, dtype.element), dtype)
            return self.define(f"and {register_type(dtype)} {self.value(expr.a)}, {mask}")
        if self._is_simple(expr):
            return self._truncated("srem", expr)
        kind = register_type(dtype)
        a, b = self.value(expr.a), self._divisor(expr)
        remainder = self.define(f"srem {kind} {a}, {b}")
        wrong = self._has_wrong_sign(expr, remainder, b)
        zero = self.broadcast("0", dtype)
        change = self.define(f"select {_bool_type(dtype)} {wrong}, {kind} {b}, {kind} {zero}")
        return self.define(f"add {kind} {remainder}, {change}")

    def _is_simple(self, expr: ir.BinaryOp) -> bool:
        """Whether rounding down and rounding toward zero are the same."""
        if expr.dtype.is_uint:
            return True
        return self.facts.is_non_negative(expr.a) and self.facts.is_non_negative(expr.b)

    def _has_wrong_sign(self, expr: ir.BinaryOp, remainder: str, divisor: str) -> str:
        """Whether a remainder of truncated division is not zero and has not the divisor's sign."""
        kind, zero = register_type(expr.dtype), self.broadcast("0", expr.dtype)
        if self.facts.is_non_negative(expr.b):
            return self.define(f"icmp slt {kind} {remainder}, {zero}")
        differs = self.define(f"xor {kind} {remainder}, {divisor}")
        opposite = self.define(f"icmp slt {kind} {differs}, {zero}")
        exists = self.define(f"icmp ne {kind} {remainder}, {zero}")
        return self.define(f"and {_bool_type(expr.dtype)} {opposite}, {exists}")

    def visit_Min(self, expr: ir.Min) -> str:
        return self._extreme(expr, "LT", "min")

    def visit_Max(self, expr: ir.Max) -> str:
        return self._extreme(expr, "GT", "max")

    def _extreme(self, expr: ir.BinaryOp, better: str, name: str) -> str:
        dtype = expr.dtype
        a, b = self.value(expr.a), self.value(expr.b)
        kind = register_type(dtype)
        if dtype.is_integer:
            sign = "s" if dtype.is_int else "u"
            return self.define(f"call {kind} @llvm.{sign}{name}({kind} {a}, {kind} {b})")
        if dtype.is_bool:
            return self.define(f"{'and' if name == 'min' else 'or'} {kind} {a}, {b}")
        choice = self.compare(better, b, a, dtype)
        return self.define(f"select {_bool_type(dtype)} {choice}, {kind} {b}, {kind} {a}")

    # -- comparisons and logic

    def compare(self, name: str, a: str, b: str, dtype: DataType) -> str:
        """A comparison by its class name (`"LT"`) of two operands of type `dtype`."""
        floating, signed, unsigned = _COMPARE[name]
        if dtype.is_float and not self.module.computes_directly(dtype):
            wide = FLOAT32.with_lanes(dtype.lanes)
            a, b, dtype = self.convert(a, dtype, wide), self.convert(b, dtype, wide), wide
        kind = register_type(dtype)
        if dtype.is_float:
            return self.define(f"fcmp {floating} {kind} {a}, {b}")
        return self.define(f"icmp {signed if dtype.is_int else unsigned} {kind} {a}, {b}")

    def visit_CompareOp(self, expr: ir.CompareOp) -> str:
        if expr.a.dtype.is_scalable and _counts_up_to(expr):
            return self._lanes_below(expr)
        a, b = self.value(expr.a), self.value(expr.b)
        return self.compare(type(expr).__name__, a, b, expr.a.dtype)

    def _lanes_below(self, expr: Any) -> str:
        """Which lanes of consecutive numbers are below a limit: an instruction of its own."""
        self.module.needs_scalable_vectors(self)
        dtype, mask = expr.a.dtype.element, register_type(expr.dtype)
        kind = register_type(dtype)
        base, limit = self.value(expr.a.base), self.value(expr.b.value)
        below = "slt" if dtype.is_int else "ult"
        has_any = self.define(f"icmp {below} {kind} {base}, {limit}")
        count = self.define(f"sub{self._nsw(dtype)} {kind} {limit}, {base}")
        intrinsic = f"@llvm.get.active.lane.mask.nxv{int(expr.dtype.lanes)}i1.{kind}"
        # it takes unsigned numbers: where no lane is below, they would mean many
        lanes = self.define(f"call {mask} {intrinsic}({kind} 0, {kind} {count})")
        return self.define(f"select i1 {has_any}, {mask} {lanes}, {mask} zeroinitializer")

    def visit_And(self, expr: ir.And) -> str:
        return self.define(f"and {self.typed(expr.a)}, {self.value(expr.b)}")

    def visit_Or(self, expr: ir.Or) -> str:
        return self.define(f"or {self.typed(expr.a)}, {self.value(expr.b)}")

    def visit_Not(self, expr: ir.Not) -> str:
        return self.define(f"xor {self.typed(expr.a)}, {self.broadcast('true', expr.dtype)}")

    def visit_Select(self, expr: ir.Select) -> str:
        condition = self.typed(expr.condition)
        if expr.condition.dtype.lanes > 1 and expr.dtype.lanes == 1:
            raise self.unsupported("Select with a vector condition chooses between scalars")
        true, false = self.typed(expr.true_value), self.typed(expr.false_value)
        return self.define(f"select {condition}, {true}, {false}")

    # -- conversions

    def visit_Cast(self, expr: ir.Cast) -> str:
        if self._in_index and expr.dtype.is_integer and expr.value.dtype.is_integer:
            if expr.dtype.bits > expr.value.dtype.bits:
                value = self.value(expr.value)
                return self.extended(value, expr.value, register_type(expr.dtype))
        return self.convert(self.value(expr.value), expr.value.dtype, expr.dtype)

    def convert(self, value: str, source: DataType, target: DataType) -> str:
        """A value converted as C does it; `source` and `target` have as many lanes."""
        return conversions.convert(self, value, source, target)

    def intrinsic(self, name: str, values: list[str], dtype: DataType) -> str:
        """An LLVM intrinsic on floats whose operands and result have one type."""
        if not self.module.computes_directly(dtype):
            wide = FLOAT32.with_lanes(dtype.lanes)
            widened = [self.convert(value, dtype, wide) for value in values]
            return self.convert(self.intrinsic(name, widened, wide), wide, dtype)
        kind = register_type(dtype)
        arguments = ", ".join([f"{kind} {value}" for value in values])
        return self.define(f"call {kind} @llvm.{name}({arguments})")


def _bool_type(dtype: DataType) -> str:
    return "i1" if dtype.lanes == 1 else f"<{dtype.lanes} x i1>"


def constant_value(expr: PrimExpr) -> int | None:
    """The value of an integer constant, also of a broadcast one; None for anything else."""
    if isinstance(expr, Broadcast):
        expr = expr.value
    return expr.value if isinstance(expr, IntImm) else None


def _counts_up_to(expr: ir.CompareOp) -> bool:
    """Whether a comparison asks which of consecutive integers are below a number."""
    if not isinstance(expr, ir.LT) or expr.a.dtype.element.bits not in (32, 64):
        return False
    if not (isinstance(expr.a, ir.Ramp) and isinstance(expr.b, Broadcast)):
        return False
    return expr.a.dtype.is_integer and constant_value(expr.a.stride) == 1


def _power_of_two(expr: PrimExpr) -> int | None:
    """The exponent of a positive constant power of two."""
    value = constant_value(expr)
    if value is None or value <= 0 or value & (value - 1):
        return None
    return value.bit_length() - 1
