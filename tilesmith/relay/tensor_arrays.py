"""Arrays of tensors, as lists of data, with the operations that importers need.

ops = TensorArrayOps(prelude, "float32")          # tensors of any shape up to rank 6
ops.register()
ops.get_global_var("tensor_array_stack")

ops = StaticTensorArrayOps(prelude, "float32", (2, 3))   # tensors of one shape
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import GlobalVar, Op, TypeCall
from tilesmith.ir.types import GlobalTypeVar
from tilesmith.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar
from tilesmith.relay.expr import Call, const, var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr
from tilesmith.relay.op import concatenate, expand_dims, reshape
from tilesmith.relay.parser import parse
from tilesmith.relay.ty import TensorType
from tilesmith.support.errors import OutOfBoundsError, TypeMismatchError, UnknownNameError
from tilesmith.tir.unknown import Any as AnySize

__all__ = [
    "StaticTensorArrayOps", "TensorArrayOps", "dynamic_name", "get_tensor_array_shape",
    "static_name",
]  # fmt: skip

_RANKS = range(7)
_TO_THE_END = (1 << 31) - 1

# Functions that are the same for all kinds of tensors: {T} is the type of an element of the array,
# {S} that of a stacked one, NAME! the name of the operation NAME for this kind.

_ARRAY = """
def @tensor_array!(%n: int32) -> List[{T}] {{
  if (equal(%n, 0)) {{ Nil }} else {{ Cons(tensor_nil!, @tensor_array!(subtract(%n, 1))) }}
}}
"""
_READ = """
def @tensor_array_read!(%ta: List[{T}], %n: int32) -> {T} {{ @nth(%ta, %n) }}
"""
_WRITE = """
def @tensor_array_write!(%ta: List[{T}], %n: int32, %v: {T}) -> List[{T}] {{
  @update(%ta, %n, %v)
}}
"""
_SCATTER = """
def @tensor_array_scatter_helper!(
    %ta: List[{T}], %at: int32, %end: int32, %indices: {I}, %values: List[{T}]) -> List[{T}] {{
  if (equal(%at, %end)) {{ %ta }} else {{
    let %written = @update(%ta, take(%indices, %at), @nth(%values, %at));
    @tensor_array_scatter_helper!(%written, add(%at, 1), %end, %indices, %values)
  }}
}}
def @tensor_array_scatter!(%ta: List[{T}], %indices: {I}, %values: List[{T}]) -> List[{T}] {{
  @tensor_array_scatter_helper!(%ta, 0, take(shape_of(%indices), 0), %indices, %values)
}}
"""
_SPLIT = """
def @tensor_array_split_helper!(%ta: List[{P}], %value: {V}, %from: int32, %at: int32, %end: int32,
    %lengths: {L}) -> List[{P}] {{
  if (equal(%at, %end)) {{ %ta }} else {{
    let %to = add(%from, take(%lengths, %at));
    let %rest = @tensor_array_split_helper!(%ta, %value, %to, add(%at, 1), %end, %lengths);
    @update(%rest, %at, @{take}(%value, %from, %to))
  }}
}}
def @tensor_array_split!(%ta: List[{P}], %value: {V}, %lengths: {L}) -> List[{P}] {{
  @tensor_array_split_helper!(%ta, %value, 0, 0, take(shape_of(%lengths), 0), %lengths)
}}
"""
_GATHER = """
def @tensor_array_gather_helper!(%ta: List[{T}], %at: int32, %end: int32, %indices: {I})
    -> List[{T}] {{
  if (equal(%at, %end)) {{ Nil }} else {{
    Cons(@nth(%ta, take(%indices, %at)),
         @tensor_array_gather_helper!(%ta, add(%at, 1), %end, %indices))
  }}
}}
def @tensor_array_gather!(%ta: List[{T}], %indices: {I}) -> {S} {{
  let %chosen = @tensor_array_gather_helper!(%ta, 0, take(shape_of(%indices), 0), %indices);
  @tensor_array_stack!(%chosen)
}}
"""
_VECTOR = "Tensor[(?,), int32]"


def dynamic_name(canonical: str, dtype: str) -> str:
    """Return the name of an operation on tensors of a dtype."""
    return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"


def static_name(
    canonical: str, dtype: str, shape: Sequence[Any], batch_dim: int | None = None
) -> str:
    """Return the name of an operation on tensors of a dtype and a shape."""
    sizes = [str(getattr(size, "value", "any")) if not isinstance(size, int) else str(size)
             for size in shape]  # fmt: skip
    text = "_".join(sizes) or "scalar"
    if canonical == "tensor_t":
        return f"static_tensor_{dtype}_{text}_t"
    if batch_dim in (None, 1) or canonical in ("tensor_constructor", "tensor_nil"):
        return f"{canonical}_{dtype}_{text}"
    return f"{canonical}_{dtype}_batch{batch_dim}_{text}"


def _sliced(data: Any, lower: Any, upper: Any, rank: int) -> Any:
    """Return the rows of a tensor from one number to another."""

    def bounds(first: Any, rest: int) -> Any:
        row = reshape(first, (1,))
        row = Call(Op.get("cast"), [row], {"dtype": "int64"})
        others = const([rest] * (rank - 1), "int64")
        return concatenate([row, others], 0) if rank > 1 else row

    strides = const([1] * rank, "int64")
    operands = [data, bounds(lower, 0), bounds(upper, _TO_THE_END), strides]
    return Call(Op.get("relax.dynamic_strided_slice"), operands)


class _Definitions:
    """What both kinds of arrays share: names, and the functions of lists."""

    def __init__(self, prelude: Any, dtype: str) -> None:
        self.prelude = prelude
        self.dtype = dtype

    def get_name(self, canonical: str) -> str:
        """Return the name of an operation for this kind of tensors."""
        raise NotImplementedError

    def get_global_var(self, canonical: str) -> GlobalVar:
        """Return the variable of a function."""
        found: GlobalVar = self.prelude.mod.get_global_var(self.get_name(canonical))
        return found

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """Return the name of a type of data."""
        found: GlobalTypeVar = self.prelude.mod.get_global_type_var(self.get_name(canonical))
        return found

    def get_ctor(self, canonical: str) -> Constructor:
        """Return a constructor of the tensors."""
        wanted = self.get_name(canonical)
        _, *constructors = self.prelude.mod.get_type(self.get_name("tensor_t"))
        for one in constructors:
            if one.name_hint == wanted:
                found: Constructor = one
                return found
        known = ", ".join([one.name_hint for one in constructors])
        raise UnknownNameError(
            f"there is no constructor '{wanted}'", notes=(f"constructors: {known}",)
        )

    def define(self, canonical: str, text: str, **types: str) -> None:
        """Add the functions of a text, unless they are there."""
        if self.get_name(canonical) in self.prelude.mod:
            return
        types = {"T": self.get_name("tensor_t"), "I": _VECTOR, "L": _VECTOR, **types}
        written = text.format(**types)
        while "!" in written:
            before, _, after = written.partition("!")
            start = max(before.rfind("@"), before.rfind(" "), before.rfind("(")) + 1
            written = before[:start] + self.get_name(before[start:]) + after
        self.prelude.mod.update(parse(written, canonical, self.prelude.mod))

    def function(self, canonical: str, params: Any, body: Any, result: Any) -> None:
        """Add a function."""
        if self.get_name(canonical) not in self.prelude.mod:
            name = GlobalVar(self.get_name(canonical))
            self.prelude.mod[name] = Function(params, body, result)

    def define_tensor_array(self) -> None:
        """Add ``tensor_array(n)``: ``n`` places without tensors."""
        self.define("tensor_array", _ARRAY)

    def define_tensor_array_read(self) -> None:
        """Add ``tensor_array_read(ta, n)``: a tensor."""
        self.define("tensor_array_read", _READ)

    def define_tensor_array_write(self) -> None:
        """Add ``tensor_array_write(ta, n, v)``: the array with another tensor."""
        self.define("tensor_array_write", _WRITE)


class TensorArrayOps(_Definitions):
    """Arrays of tensors of one dtype and any shape: ``tensor0`` to ``tensor6`` make them."""

    def get_name(self, canonical: str) -> str:
        """Return the name of an operation for this dtype."""
        return dynamic_name(canonical, self.dtype)

    def _type(self, rank: int) -> str:
        return f"Tensor[({'?, ' * rank}), {self.dtype}]" if rank else self.dtype

    def define_tensor_adt(self) -> None:
        """Add the type of tensors."""
        name = self.get_name("tensor_t")
        if name not in self.prelude.mod:
            made = [f"tensor{rank}_{self.dtype}({self._type(rank)})" for rank in _RANKS]
            text = f"type {name} {{ tensor_nil_{self.dtype}, {', '.join(made)}, }}"
            self.prelude.mod.update(parse(text, name, self.prelude.mod))

    def define_tensor_take(self) -> None:
        """Add ``tensor_take(t, lower, upper)``: rows."""
        type_ = self.get_type("tensor_t")
        tensor, lower, upper = var("t", type_), var("lower", "int32"), var("upper", "int32")
        clauses = []
        for rank in _RANKS[1:]:
            constructor = self.get_ctor(f"tensor{rank}")
            data = var("x", constructor.inputs[0])
            pattern = PatternConstructor(constructor, [PatternVar(data)])
            clauses.append(Clause(pattern, constructor(_sliced(data, lower, upper, rank))))
        body = Match(tensor, clauses, False)
        self.function("tensor_take", [tensor, lower, upper], body, type_)

    def define_tensor_expand_dims(self) -> None:
        """Add ``tensor_expand_dims(t)``: the tensor as one row."""
        type_ = self.get_type("tensor_t")
        tensor = var("t", type_)
        clauses = []
        for rank in _RANKS[:-1]:
            constructor, wider = self.get_ctor(f"tensor{rank}"), self.get_ctor(f"tensor{rank + 1}")
            data = var("x", constructor.inputs[0])
            pattern = PatternConstructor(constructor, [PatternVar(data)])
            clauses.append(Clause(pattern, wider(expand_dims(data, 0))))
        self.function("tensor_expand_dims", [tensor], Match(tensor, clauses, False), type_)

    def define_tensor_concat(self) -> None:
        """Add ``tensor_concatenate(x, y)``: the rows of both."""
        type_ = self.get_type("tensor_t")
        first, second = var("x", type_), var("y", type_)
        clauses = []
        for rank in _RANKS[1:]:
            constructor = self.get_ctor(f"tensor{rank}")
            a, b = var("a", constructor.inputs[0]), var("b", constructor.inputs[0])
            joined = constructor(concatenate([a, b], 0))
            inner = Clause(PatternConstructor(constructor, [PatternVar(b)]), joined)
            pattern = PatternConstructor(constructor, [PatternVar(a)])
            clauses.append(Clause(pattern, Match(second, [inner], False)))
        self.function("tensor_concatenate", [first, second], Match(first, clauses, False), type_)

    def _define_unstack(self, rank: int) -> None:
        canonical = f"tensor_array_unstack_tensor{rank}"
        text = """
def @CANONICAL_helper!(%at: int32, %end: int32, %t: {X}) -> List[{T}] {{
  if (equal(%at, %end)) {{ Nil }} else {{
    Cons(tensorLESS!(take(%t, %at, axis=0)), @CANONICAL_helper!(add(%at, 1), %end, %t))
  }}
}}
def @CANONICAL!(%t: {X}) -> List[{T}] {{
  @CANONICAL_helper!(0, take(shape_of(%t), 0), %t)
}}
"""
        text = text.replace("CANONICAL", canonical).replace("LESS", str(rank - 1))
        self.define(canonical, text, X=self._type(rank))

    def define_tensor_array_unstack_tensor1(self) -> None:
        """Add the function that makes an array of the elements of a vector."""
        self._define_unstack(1)

    def define_tensor_array_unstack_tensor2(self) -> None:
        """Add the function that makes an array of the rows of a matrix."""
        self._define_unstack(2)

    def define_tensor_array_unstack_tensor3(self) -> None:
        """Add the function that makes an array of the parts of a tensor of rank 3."""
        self._define_unstack(3)

    def define_tensor_array_unstack_tensor4(self) -> None:
        """Add the function that makes an array of the parts of a tensor of rank 4."""
        self._define_unstack(4)

    def define_tensor_array_unstack_tensor5(self) -> None:
        """Add the function that makes an array of the parts of a tensor of rank 5."""
        self._define_unstack(5)

    def define_tensor_array_unstack_tensor6(self) -> None:
        """Add the function that makes an array of the parts of a tensor of rank 6."""
        self._define_unstack(6)

    def define_tensor_array_scatter(self) -> None:
        """Add ``tensor_array_scatter(ta, indices, values)``."""
        self.define("tensor_array_scatter", _SCATTER)

    def define_tensor_array_split(self) -> None:
        """Add ``tensor_array_split(ta, value, lengths)``: the array with parts of a tensor."""
        name = self.get_name("tensor_t")
        self.define("tensor_array_split", _SPLIT, P=name, V=name, take=self.get_name("tensor_take"))

    def define_tensor_array_concat(self) -> None:
        """Add ``tensor_array_concat(ta)``: the rows of all tensors."""
        text = """
def @tensor_array_concat!(%ta: List[{T}]) -> {T} {{
  @foldr1(@tensor_concatenate!, %ta)
}}
"""
        self.define("tensor_array_concat", text)

    def define_tensor_array_stack(self) -> None:
        """Add ``tensor_array_stack(ta)``: the tensors along a new first axis."""
        text = """
def @tensor_array_stack!(%ta: List[{T}]) -> {T} {{
  @foldr1(@tensor_concatenate!, @map(@tensor_expand_dims!, %ta))
}}
"""
        self.define("tensor_array_stack", text)

    def define_tensor_array_gather(self) -> None:
        """Add ``tensor_array_gather(ta, indices)``: chosen tensors along a new first axis."""
        self.define("tensor_array_gather", _GATHER, S=self.get_name("tensor_t"))

    def register(self) -> None:
        """Add all functions."""
        self.define_tensor_adt()
        self.define_tensor_take()
        self.define_tensor_expand_dims()
        self.define_tensor_concat()
        self.define_tensor_array()
        self.define_tensor_array_read()
        self.define_tensor_array_write()
        for rank in _RANKS[1:]:
            self._define_unstack(rank)
        self.define_tensor_array_scatter()
        self.define_tensor_array_split()
        self.define_tensor_array_concat()
        self.define_tensor_array_stack()
        self.define_tensor_array_gather()


class StaticTensorArrayOps(_Definitions):
    """Arrays of tensors of one dtype and shape; ``batch_dim`` is the number of tensors in arrays
    that are stacked, where it is known.
    """

    def __init__(
        self, prelude: Any, dtype: str, shape: Sequence[Any], batch_dim: int | None = None
    ) -> None:
        super().__init__(prelude, dtype)
        self.shape = tuple(shape)
        self.batch_dim = batch_dim

    def get_name(self, canonical: str, extra_shapes: Sequence[Any] | None = None) -> str:
        """Return the name of an operation for this dtype and shape."""
        name = static_name(canonical, self.dtype, self.shape, self.batch_dim)
        for shape in extra_shapes or ():
            sizes = [str(one) if isinstance(one, int) else "any" for one in shape]
            name += "_" + ("_".join(sizes) or "scalar")
        return name

    def is_cached(self, name: str) -> bool:
        """Return whether the module has a function or a type of a name."""
        return name in self.prelude.mod

    def other(self, shape: Sequence[Any]) -> StaticTensorArrayOps:
        """Return the operations for another shape, whose type of tensors is there."""
        made = StaticTensorArrayOps(self.prelude, self.dtype, shape, None)
        made.define_tensor_adt()
        return made

    def _rows(self, count: Any = None) -> StaticTensorArrayOps:
        """Return the operations for tensors with another number of rows."""
        if not self.shape:
            raise OutOfBoundsError("numbers have no rows", notes=("stack them first",))
        return self.other((AnySize() if count is None else count, *self.shape[1:]))

    def _stacked(self) -> StaticTensorArrayOps:
        return self.other((AnySize() if self.batch_dim is None else self.batch_dim, *self.shape))

    def define_tensor_adt(self) -> None:
        """Add the type of tensors."""
        name = self.get_name("tensor_t")
        if not self.is_cached(name):
            sizes = [str(one) if isinstance(one, int) else "?" for one in self.shape]
            shape = ", ".join(sizes) + ("," if len(sizes) == 1 else "")
            tensor = f"Tensor[({shape}), {self.dtype}]" if sizes else self.dtype
            nil, made = self.get_name("tensor_nil"), self.get_name("tensor_constructor")
            text = f"type {name} {{ {nil}, {made}({tensor}), }}"
            self.prelude.mod.update(parse(text, name, self.prelude.mod))

    def _of_data(self, canonical: str, more: Sequence[Any], to: Any, body: Any) -> None:
        """Add a function of a tensor and more that gives one of another kind."""
        type_ = self.get_type("tensor_t")
        constructor = self.get_ctor("tensor_constructor")
        tensor, data = var("t", type_), var("x", constructor.inputs[0])
        pattern = PatternConstructor(constructor, [PatternVar(data)])
        made = Match(tensor, [Clause(pattern, body(data))], False)
        self.function(canonical, [tensor, *more], made, to)

    def define_tensor_take(self) -> None:
        """Add ``tensor_take(t, lower, upper)``: rows, whose number is not known."""
        rows = self._rows()
        lower, upper = var("lower", "int32"), var("upper", "int32")
        made = rows.get_ctor("tensor_constructor")
        self._of_data(
            "tensor_take",
            [lower, upper],
            rows.get_type("tensor_t"),
            lambda data: made(_sliced(data, lower, upper, len(self.shape))),
        )

    def define_tensor_expand_dims(self) -> None:
        """Add ``tensor_expand_dims(t)``: the tensor as one row."""
        wider = self.other((1, *self.shape))
        made = wider.get_ctor("tensor_constructor")
        self._of_data(
            "tensor_expand_dims",
            [],
            wider.get_type("tensor_t"),
            lambda data: made(expand_dims(data, 0)),
        )

    def define_tensor_concatenate(self) -> None:
        """Add ``tensor_concatenate(x, y)``: the rows of both."""
        rows = self._rows()
        made, constructor = rows.get_ctor("tensor_constructor"), self.get_ctor("tensor_constructor")
        other, second = var("y", self.get_type("tensor_t")), var("b", constructor.inputs[0])
        pattern = PatternConstructor(constructor, [PatternVar(second)])
        self._of_data(
            "tensor_concatenate",
            [other],
            rows.get_type("tensor_t"),
            lambda data: Match(
                other, [Clause(pattern, made(concatenate([data, second], 0)))], False
            ),
        )

    def define_tensor_get_data(self) -> None:
        """Add ``tensor_get_data(t)``: the tensor itself."""
        type_ = self.get_ctor("tensor_constructor").inputs[0]
        self._of_data("tensor_get_data", [], type_, lambda data: data)

    def define_tensor_array_unstack(self) -> None:
        """Add ``tensor_array_unstack(t)``: the parts of a tensor along its first axis."""
        text = """
def @tensor_array_unstack_helper!(%at: int32, %end: int32, %t: {X}) -> List[{T}] {{
  if (equal(%at, %end)) {{ Nil }} else {{
    Cons(tensor_constructor!(take(%t, %at, axis=0)),
         @tensor_array_unstack_helper!(add(%at, 1), %end, %t))
  }}
}}
def @tensor_array_unstack!(%t: {X}) -> List[{T}] {{
  @tensor_array_unstack_helper!(0, take(shape_of(%t), 0), %t)
}}
"""
        self.define("tensor_array_unstack", text, X=self._text(self._stacked().shape))

    def _text(self, shape: Sequence[Any], dtype: str | None = None) -> str:
        sizes = ", ".join([str(one) if isinstance(one, int) else "?" for one in shape])
        return f"Tensor[({sizes},), {dtype or self.dtype}]"

    def define_tensor_array_scatter(
        self, indices_shape: Sequence[Any] | None = None, force_update: bool = False
    ) -> None:
        """Add ``tensor_array_scatter(ta, indices, values)``; ``force_update`` writes it again."""
        self._forget(force_update, "tensor_array_scatter", "tensor_array_scatter_helper")
        indices = _VECTOR if indices_shape is None else self._text(indices_shape, "int32")
        self.define("tensor_array_scatter", _SCATTER, I=indices)

    def _forget(self, is_wanted: bool, *canonical: str) -> None:
        for one in canonical:
            if is_wanted and self.get_name(one) in self.prelude.mod:
                del self.prelude.mod[self.get_global_var(one)]

    def define_tensor_array_split(
        self,
        value_shape: Sequence[Any] | None = None,
        lengths_shape: Sequence[Any] | None = None,
        force_update: bool = False,
    ) -> None:
        """Add ``tensor_array_split(ta, value, lengths)``: the array with parts of a tensor, whose
        numbers of rows are not known.
        """
        self._forget(force_update, "tensor_array_split", "tensor_array_split_helper")
        value = self._rows() if value_shape is None else self.other(value_shape)
        value.define_tensor_take()
        self.define(
            "tensor_array_split",
            _SPLIT,
            P=self._rows().get_name("tensor_t"),
            V=value.get_name("tensor_t"),
            L=_VECTOR if lengths_shape is None else self._text(lengths_shape, "int32"),
            take=value.get_name("tensor_take"),
        )

    def define_tensor_array_concat(self) -> None:
        """Add ``tensor_array_concat(ta)``: the rows of all tensors."""
        self._define_joined("tensor_array_concat", self._rows(), "{rows}({data})")

    def define_tensor_array_stack(self) -> None:
        """Add ``tensor_array_stack(ta)``: the tensors along a new first axis."""
        several = self.other((AnySize(), *self.shape))
        self._define_joined("tensor_array_stack", several, "{rows}(expand_dims({data}, axis=0))")

    def _define_joined(self, canonical: str, rows: StaticTensorArrayOps, one: str) -> None:
        rows.define_tensor_concatenate()
        made = one.format(rows=rows.get_name("tensor_constructor"), data="%x")
        text = """
def @CANONICAL_helper!(%t: {T}) -> {S} {{ match? (%t) {{ tensor_constructor!(%x) => ONE }} }}
def @CANONICAL!(%ta: List[{T}]) -> {S} {{
  @foldr1(@{join}, @map(@CANONICAL_helper!, %ta))
}}
"""
        text = text.replace("CANONICAL", canonical).replace("ONE", made)
        names = {"S": rows.get_name("tensor_t"), "join": rows.get_name("tensor_concatenate")}
        self.define(canonical, text, **names)

    def define_tensor_array_gather(self) -> None:
        """Add ``tensor_array_gather(ta, indices)``: chosen tensors along a new first axis."""
        several = self.other((AnySize(), *self.shape))
        self.define("tensor_array_gather", _GATHER, S=several.get_name("tensor_t"))

    def register(self) -> None:
        """Add all functions; those of rows only where the tensors have rows."""
        self.define_tensor_adt()
        self.define_tensor_get_data()
        self.define_tensor_expand_dims()
        self.define_tensor_array()
        self.define_tensor_array_read()
        self.define_tensor_array_write()
        self.define_tensor_array_unstack()
        self.define_tensor_array_scatter()
        self.define_tensor_array_stack()
        self.define_tensor_array_gather()
        if self.shape:
            self.define_tensor_take()
            self.define_tensor_concatenate()
            self.define_tensor_array_split()
            self.define_tensor_array_concat()


def get_tensor_array_shape(expr: Any, dtype: str, prelude: Any) -> tuple[Any, ...] | None:
    """Return the shape of the tensors in an array, None if they may have any."""
    type_ = infer_expr(expr, prelude.mod).checked_type
    if not isinstance(type_, TypeCall) or type_.func != prelude.l or len(type_.args) != 1:
        raise TypeMismatchError(f"an array of tensors is a list of them, not {type_}")
    header: Any = type_.args[0]
    header = header.func if isinstance(header, TypeCall) else header
    if not isinstance(header, GlobalTypeVar) or header.name_hint == dynamic_name("tensor_t", dtype):
        return None
    for constructor in prelude.mod.type_definitions[header].constructors:
        if constructor.name_hint.startswith("tensor_constructor_"):
            tensor = constructor.inputs[0]
            return tuple(tensor.shape) if isinstance(tensor, TensorType) else None
    return None
