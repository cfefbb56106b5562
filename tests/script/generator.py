"""Random programs that use the whole language: every node class, data type and intrinsic.

They mean nothing and would not run; what counts is that each one can be written as text and read
back. Names clash on purpose.
"""

from __future__ import annotations

import random

import numpy

from tilesmith import ir, tir
from tilesmith.ir.intrinsic_table import INTRINSICS
from tilesmith.tir.expr import BufferRegion, CommReducer, IterVar, Reduce
from tilesmith.tir.stmt import MatchBufferRegion, stmt_seq

INTEGERS = (
    "int32",
    "int64",
    "int8",
    "int16",
    "int4",
    "int1",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
FLOATS = (
    "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e3m4",
    "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
)  # fmt: skip
SCALARS = (*INTEGERS, *FLOATS, "bool")
LANES = 4
SCOPES = ("global", "shared", "local", "shared.dyn", "wmma.accumulator")
KEYS = ("pragma", "tir.key", "a b", 'quote"d', "software_pipeline_stage")
FLOAT_VALUES = (0.0, -0.0, 1.0, -1.5, 0.1, 6e4, 2.5e-40, float("inf"), float("-inf"), float("nan"))
THREADS = ("threadIdx.x", "blockIdx.y", "vthread", "threadIdx.z")


class Generator:
    """Makes one program; ``seed`` decides all."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        names = ("x", "y", "A")
        self.variables = {t: [tir.Var(n, t) for n in names] for t in (*SCALARS, "handle")}
        self.sizes = [tir.SizeVar("n", "int32"), tir.Var("m", "int64")]
        self.buffers = {t: tir.decl_buffer((8, 8), t, "A") for t in SCALARS}
        self.bound: list[tir.Var] = []  # by loops, lets and blocks around

    # Choices.

    def pick(self, choices):
        return self.random.choice(tuple(choices))

    def maybe(self, chance=0.5):
        return self.random.random() < chance

    def some(self, make, least=0, most=3):
        return [make() for _ in range(self.random.randint(least, most))]

    # Expressions.

    def constant(self, dtype):
        if dtype == "bool":
            return tir.IntImm("bool", self.random.randint(0, 1))
        if dtype in FLOATS:
            return tir.FloatImm(dtype, self.pick(FLOAT_VALUES))
        kind = tir.Var("x", dtype).dtype
        low, high = kind.min_value, kind.max_value
        return tir.IntImm(dtype, self.pick((low, high, 0, self.random.randint(low, high))))

    def leaf(self, dtype):
        if self.maybe():
            return self.constant(dtype)
        known = [*self.variables[dtype], *[v for v in self.bound if v.dtype == dtype]]
        return self.pick(known)

    def value(self, dtype, depth=2):
        """An expression of a scalar dtype, made by constructors: nothing is folded."""
        if depth == 0 or self.maybe(0.2):
            return self.leaf(dtype)
        if dtype == "bool":
            return self.condition(depth)
        kinds = [self.binary, self.cast, self.call]
        if depth > 1:
            kinds += [self.load, self.choice, self.let, self.reduction, self.extracted]
        return self.pick(kinds)(dtype, depth - 1)

    def binary(self, dtype, depth=0):
        kinds = [tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Min, tir.Max]
        if dtype in INTEGERS:
            kinds += [tir.FloorDiv, tir.FloorMod, tir.Mod]
        return self.pick(kinds)(self.value(dtype, depth), self.value(dtype, depth))

    def cast(self, dtype, depth=0):
        return tir.Cast(dtype, self.value(self.pick(SCALARS), depth))

    def load(self, dtype, depth=0):
        return tir.BufferLoad(self.buffers[dtype], (self.index(depth), self.index(depth)))

    def index(self, depth=0):
        return self.value(self.pick(("int32", "int32", "int64")), depth)

    def choice(self, dtype, depth=0):
        parts = self.condition(depth), self.value(dtype, depth), self.value(dtype, depth)
        return tir.Select(*parts) if self.maybe() else tir.Call(dtype, "tir.if_then_else", parts)

    def let(self, dtype, depth=0):
        var = tir.Var(self.pick(("x", "v")), self.pick(SCALARS))
        value = self.value(var.dtype, depth)
        body = tir.Select(self.condition(0), self.value(dtype, depth), self.value(dtype, 0))
        if var.dtype == dtype:
            body = tir.Max(var, body)
        return tir.Let(var, value, body)

    def call(self, dtype, depth=0, record=None):
        """A call of any operator, with arguments that it may not expect."""
        record = record or self.pick(INTRINSICS)
        kinds = (*SCALARS, "int32", "int32")
        args = [self.value(self.pick(kinds), depth) for _ in range(self.random.randint(0, 3))]
        if self.maybe(0.3):
            args.insert(0, tir.StringImm(self.pick(KEYS)))
        if self.maybe(0.2):
            args.append(self.pick(self.variables["handle"]))
        return tir.Call(dtype, "tir." + record.name, tuple(args))

    def reduction(self, dtype, depth=0):
        one, two = tir.Var("x", dtype), tir.Var("y", dtype)
        combiner = CommReducer((one,), (two,), (tir.Max(one, two),), (self.constant(dtype),))
        axis = IterVar(ir.Range(0, 8), tir.Var("k", "int32"), IterVar.CommReduce)
        self.bound.append(axis.var)
        source = self.value(dtype, depth)
        condition = self.condition(depth)
        self.bound.pop()
        init = (self.constant(dtype),) if self.maybe() else ()
        return Reduce(combiner, (source,), (axis,), condition, 0, init)

    def condition(self, depth=1):
        if depth == 0:
            return self.leaf("bool")
        kind = self.pick(("compare", "and", "not", "leaf"))
        if kind == "compare":
            dtype = self.pick((*INTEGERS, *FLOATS))
            compare = self.pick((tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE))
            return compare(self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        if kind == "and":
            both = self.pick((tir.And, tir.Or))
            return both(self.condition(depth - 1), self.condition(depth - 1))
        return tir.Not(self.condition(depth - 1)) if kind == "not" else self.leaf("bool")

    def vector(self, dtype, depth=1):
        """An expression with lanes."""
        kinds = ["broadcast", "shuffle", "load", "cast", "binary", "masked"]
        kind = self.pick((*kinds, "ramp") if dtype in INTEGERS else kinds)
        if kind == "ramp":
            return tir.Ramp(self.value(dtype, depth), self.value(dtype, 0), LANES)
        if kind == "shuffle":
            numbers = [tir.IntImm("int32", k) for k in range(LANES)]
            return tir.Shuffle((self.wide(dtype),), tuple(numbers))
        if kind == "cast":
            return tir.Cast(f"{dtype}x{LANES}", self.wide(self.pick(SCALARS)))
        if kind == "binary" and dtype != "bool":
            return tir.Add(self.wide(dtype), self.wide(dtype))
        if kind in ("load", "masked"):
            lanes = tir.Ramp(self.value("int32", 0), tir.IntImm("int32", 1), LANES)
            mask = tir.Broadcast(self.condition(0), LANES) if kind == "masked" else None
            return tir.BufferLoad(self.buffers[dtype], (self.index(0), lanes), mask)
        return self.wide(dtype)

    def wide(self, dtype):
        return tir.Broadcast(self.value(dtype, 0), LANES)

    def extracted(self, dtype, depth=0):
        """One lane of a vector."""
        lane = tir.IntImm("int32", self.random.randint(0, LANES - 1))
        return tir.Shuffle((self.vector(dtype, depth),), (lane,))

    # Statements.

    def body(self, depth, *variables):
        """Statements that may use further variables."""
        self.bound += variables
        made = stmt_seq(*self.some(lambda: self.statement(depth), 1, 2))
        del self.bound[len(self.bound) - len(variables) :]
        return made

    def statement(self, depth):
        if depth == 0:
            return self.store()
        return self.pick(
            (self.loop, self.branch, self.let_statement, self.block, self.allocation, self.store,
             self.attribute, self.evaluation, self.buffer_part, self.constant_memory)
        )(depth - 1)  # fmt: skip

    def store(self, depth=0):
        dtype = self.pick(SCALARS)
        if self.maybe(0.3):
            lanes = tir.Ramp(self.value("int32", 0), tir.IntImm("int32", 2), LANES)
            mask = self.pick((None, tir.Broadcast(self.condition(0), LANES)))
            indices = (self.index(0), lanes)
            return tir.BufferStore(self.buffers[dtype], self.vector(dtype), indices, mask)
        indices = (self.index(1), self.index(0))
        return tir.BufferStore(self.buffers[dtype], self.value(dtype, 2), indices)

    def evaluation(self, depth=0):
        return tir.Evaluate(self.pick((self.call, self.value))(self.pick(SCALARS), 1))

    def annotations(self, chance=0.4):
        values = (1, -2, 2.5, True, None, "text", [1, [2, "b"]], {"k": 1}, tir.IntImm("int64", 3))
        if not self.maybe(chance):
            return {}
        return {key: self.pick(values) for key in self.random.sample(KEYS, 2)}

    def loop(self, depth):
        if self.maybe(0.15):
            return tir.While(self.condition(1), self.body(depth))
        dtype = self.pick(("int32", "int32", "int64", "uint8"))
        var = tir.Var(self.pick("ij"), dtype)
        low = tir.IntImm(dtype, 0) if self.maybe(0.6) else self.value(dtype, 1)
        kind = self.random.randint(0, 4)
        extent = self.value(dtype, 1)
        thread = None
        if kind == tir.ForKind.THREAD_BINDING:
            tag = self.pick(THREADS)
            domain = ir.Range.from_min_extent(low, extent) if self.maybe(0.7) else None
            thread = IterVar(domain, tir.Var(self.pick((tag, "t")), dtype), 1, tag)
        body = self.body(depth, var)
        return tir.For(var, low, extent, kind, body, thread, self.annotations(0.2))

    def branch(self, depth):
        if self.maybe(0.2):
            message = self.pick(("message", 'with "quotes"\nand lines'))
            return tir.AssertStmt(self.condition(1), message, self.body(depth))
        otherwise = self.body(depth) if self.maybe() else None
        return tir.IfThenElse(self.condition(2), self.body(depth), otherwise)

    def let_statement(self, depth):
        dtype = self.pick((*SCALARS, f"float32x{LANES}"))
        value = self.vector("float32") if "x" in dtype else self.value(dtype)
        var = tir.Var(self.pick(("x", "v")), dtype)
        return tir.LetStmt(var, value, self.body(depth, *([] if "x" in dtype else [var])))

    def attribute(self, depth):
        if self.maybe():
            tag = self.pick(THREADS)
            extent = self.value("int32", 0)
            if isinstance(extent, tir.IntImm) and extent.value < 0:  # which parsers refuse
                extent = tir.IntImm("int32", -1 - extent.value)
            iterator = IterVar(ir.Range(0, extent), tir.Var("t", "int32"), 1, tag)
            body = self.body(depth, iterator.var)
            return tir.AttrStmt(iterator, "thread_extent", extent, body)
        buffer = self.buffers["float32"]
        node = self.pick((self.index(1), tir.StringImm("s"), buffer, [buffer, buffer]))
        value = self.pick((self.index(1), tir.StringImm("s")))
        return tir.AttrStmt(node, self.pick(KEYS), value, self.body(depth))

    def buffer_of(self, name, data=None, sizes=None, elsewhere=True):
        """A buffer with any of the properties that buffers have."""
        shape = sizes or self.some(lambda: self.pick((4, 7, *self.sizes)), 0, 3)
        strides = None
        if shape and self.maybe(0.3):
            strides = [tir.IntImm("int32", 2 * k + 1) for k in range(len(shape))]
        dtype = self.pick(SCALARS) if data is None else data.type_annotation.element_type.dtype
        separators = [1] if len(shape) > 1 and self.maybe(0.2) else None
        return tir.decl_buffer(
            shape, dtype, name, data, strides,
            self.pick((None, None, 3, self.sizes[0])) if elsewhere else None,
            self.pick(SCOPES), self.pick((-1, 128)), self.pick((0, 4)) if elsewhere else 0,
            self.pick(("", "", "auto_broadcast")), separators,
        )  # fmt: skip

    def pointer(self, dtype):
        element = "int8" if dtype == "bool" else dtype
        return tir.Var(
            self.pick(("A", "p")), ir.PointerType(ir.PrimType(element), self.pick(SCOPES))
        )

    def allocation(self, depth):
        dtype = self.pick(SCALARS)
        pointer = self.pointer(dtype)
        extents = self.some(lambda: self.pick((4, 7, self.sizes[0])), 1, 2)
        inside = self.body(depth)
        if dtype != "bool" and self.maybe(0.7):
            own = tir.decl_buffer(extents, dtype, "A", pointer, scope=pointer.storage_scope)
            store = tir.BufferStore(own, self.value(dtype, 1), [self.index(0)] * len(extents))
            inside = stmt_seq(store, inside)
            if self.maybe(0.7):
                inside = tir.DeclBuffer(own, inside)
        condition = True if self.maybe(0.8) else self.condition(1)
        return tir.Allocate(pointer, dtype, extents, condition, inside, self.annotations(0.2))

    def constant_memory(self, depth):
        dtype = self.pick(("int32", "int8", "uint16", "float32", "float16", "bool", "int64"))
        count = self.pick((3, 40))
        numbers = numpy.arange(count).astype(tir.Var("x", dtype).dtype.numpy())
        body = self.body(depth)
        return tir.AllocateConst(self.pointer(dtype), dtype, [count], numbers, body)

    def region(self, buffer, *variables):
        ranges = []
        for size in buffer.shape:
            low = self.pick((*variables, tir.IntImm("int32", 1), self.index(1)))
            extent = self.pick((tir.IntImm(low.dtype, 1), tir.IntImm(low.dtype, 3)))
            if low.dtype == size.dtype and self.maybe(0.2):
                low, extent = tir.IntImm(size.dtype, 0), size
            ranges.append(ir.Range.from_min_extent(low, extent))
        return BufferRegion(buffer, tuple(ranges))

    def buffer_part(self, depth):
        """Statements about a part of a buffer, as classic schedules make them."""
        region = self.region(self.buffers[self.pick(SCALARS)])
        if self.maybe():
            return tir.Prefetch(region.buffer, region.region)
        condition = True if self.maybe() else self.condition(1)
        return tir.BufferRealize(region.buffer, region.region, condition, self.body(depth))

    def axis(self, name):
        dtype = self.pick(("int32", "int32", "int64"))
        low, extent = (tir.IntImm(dtype, value) for value in (self.pick((0, 0, 2)), 8))
        kind = self.pick((IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered, IterVar.Opaque))
        return IterVar(ir.Range.from_min_extent(low, extent), tir.Var(name, dtype), kind)

    def block(self, depth):
        axes = [self.axis(name) for name in ("v", "v", "w")[: self.random.randint(0, 3)]]
        variables = [axis.var for axis in axes]
        buffer = self.buffers[self.pick(SCALARS)]
        matches = []
        if self.maybe(0.3):
            source = self.region(buffer, *[v for v in variables if v.dtype == "int32"])
            sizes = [item.extent for item in source.region]
            scope = buffer.scope()
            made = tir.decl_buffer(sizes, buffer.dtype, "M", scope=scope, offset_factor=1)
            matches.append(MatchBufferRegion(made, source))
        own = self.some(lambda: self.buffer_of("A", elsewhere=False), 0, 2)
        self.bound += variables
        reads = self.some(lambda: self.region(self.buffers[self.pick(SCALARS)], *variables), 0, 2)
        writes = self.some(lambda: self.region(buffer, *variables), 0, 1)
        init = self.store() if self.maybe(0.3) else None
        inner = self.body(depth)
        del self.bound[len(self.bound) - len(variables) :]
        name = self.pick(("b", "", "update", "a.b"))
        block = tir.Block(
            axes, reads, writes, name, inner, init, own, matches, self.annotations(0.3)
        )
        values = [self.value(axis.var.dtype, 1) for axis in axes]
        predicate = True if self.maybe(0.7) else self.condition(1)
        return tir.BlockRealize(values, predicate, block)

    # Functions and modules.

    def function(self, symbol="main", depth=3):
        params = [*self.sizes, *[v for group in self.variables.values() for v in group]]
        buffers = list(self.buffers.values())
        shaped = [self.buffer_of(f"P{k}") for k in range(2)]
        handles = [tir.Var(f"h{k}", "handle") for k in range(2)]
        typed = tir.Var("p", ir.PointerType(ir.PrimType(self.pick(FLOATS)), self.pick(SCOPES)))
        body = self.body(depth)
        root = tir.Block(
            (),
            (),
            (),
            "root",
            body,
            None,
            self.some(lambda: self.buffer_of("R", elsewhere=False), 0, 1),
        )
        if self.maybe(0.8):
            body = tir.BlockRealize((), True, root)
        attrs = {**self.annotations(), **({"global_symbol": symbol} if symbol else {})}
        result = self.pick((None, ir.PrimType("int32"), ir.PrimType("handle")))
        return tir.PrimFunc(
            [*params, *buffers, *handles, typed], body, result, dict(zip(handles, shaped)), attrs
        )

    def module(self):
        """Functions that call each other; not all of their names are Python's."""
        names = ("main", "a.b", "a_b", "1st", "lambda")
        chosen = self.random.sample(names, self.random.randint(1, 4))
        functions = {ir.GlobalVar(name): None for name in chosen}
        for variable in functions:
            x = tir.Var("x", "int32")
            callee = self.pick(functions)
            call = tir.Call(self.pick(("void", "int32")), callee, (x, self.value("float32", 0)))
            symbol = self.pick((variable.name_hint, None, "other"))
            made = Generator(self.random.getrandbits(30)).function(symbol, 1)
            body = stmt_seq(tir.LetStmt(x, 1, tir.Evaluate(call)), made.body)
            params = [*made.params, *self.variables["float32"]]
            functions[variable] = tir.PrimFunc(
                params, body, made.ret_type, made.buffer_map, made.attrs
            )
        infos = {"vdevice": [ir.VDevice(None, 0, "global")]} if self.maybe(0.3) else None
        return ir.IRModule(functions, None, self.annotations(), infos)
