"""Turns tensor expressions into a PrimFunc: each operation becomes a block under its own loops.

  C = te.compute((n,), lambda i: A[i] + 1, name="C")
create_prim_func([A, C])
  for i in range(n):
      with T.block("C"):
          v_i = T.axis.spatial(n, i)
          C[v_i] = A[v_i] + 1
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, PrimExpr, Range, Var, const
from tilesmith.ir.operators import cast
from tilesmith.ir.queries import is_call
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.support.recursion import deep_recursion
from tilesmith.te.checks import (
    check_late_reads,
    check_states,
    check_variables,
    in_order_of_time,
    update_operations,
)
from tilesmith.te.index_dtype import IndexDtype, MatchDtypes, same_dtype
from tilesmith.te.places import placed
from tilesmith.te.tensor import (
    ComputeOp,
    ExternOp,
    HybridOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
)
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.analysis.variables import undefined_vars
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar, ProducerLoad, Reduce
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    MatchBufferRegion,
    Stmt,
    stmt_seq,
)

__all__ = ["create_prim_func"]

LAYOUT_FREE = "layout_free_placeholders"
"""The attribute of an operation that names inputs whose layout may be changed."""


def create_prim_func(ops: Any, index_dtype_override: str | None = None) -> PrimFunc:
    """Make a PrimFunc whose parameters are the given tensors and scalar variables, in order.

    ``index_dtype_override``: the dtype of all shapes and indices, "int64" for what comes from the
    graph level.
    """
    arguments = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    for argument in arguments:
        if not isinstance(argument, (Tensor, Var)):
            raise TypeMismatchError(
                f"create_prim_func takes tensors and variables, got {argument!r}",
                notes=("give it inputs and outputs in one list: te.create_prim_func([A, C])",),
            )
    for number, argument in enumerate(arguments):
        if any(argument is other for other in arguments[:number]):
            raise TypeMismatchError(
                f"'{argument.name}' is twice among the arguments of create_prim_func",
                notes=("make a placeholder of its own for each parameter",),
            )
    with deep_recursion():
        return _Builder(arguments, index_dtype_override).build()


def operations_in_order(tensors: list[Tensor]) -> list[Operation]:
    """Return the operations that compute some tensors, each after those that it reads."""
    order: dict[Operation, None] = {}

    def walk(op: Operation) -> None:
        if op not in order:
            for tensor in op.input_tensors:
                walk(tensor.op)
            order[op] = None

    for tensor in tensors:
        walk(tensor.op)
    return list(order)


class _Body(MatchDtypes):
    """Rewrites a body: tensor reads become buffer loads, iterators become those of the block."""

    def __init__(self, builder: _Builder, mapping: dict[Var, PrimExpr]) -> None:
        self.builder = builder
        self.mapping = mapping

    def visit_Var(self, variable: Var) -> PrimExpr:
        found = self.mapping.get(variable)
        return self.builder.sizes.get(variable, variable) if found is None else found

    def visit_ProducerLoad(self, load: ProducerLoad) -> PrimExpr:
        buffer = self.builder.buffers[load.producer]
        indices = [self.builder.index(self.visit(index)) for index in load.indices]
        return BufferLoad(buffer, indices)

    def visit_Call(self, call: Any) -> PrimExpr:
        new = self.children(call)
        if new is not call and is_call(new, "tir.if_then_else"):
            condition, a, b = new.args
            a, b = same_dtype(a, b)
            return type(new)(a.dtype, new.op, (condition, a, b))
        return new

    def visit_Let(self, node: Any) -> PrimExpr:
        value = self.visit(node.value)
        if value.dtype is not node.var.dtype:
            variable = Var(node.var.name, value.dtype)
            self.mapping[node.var] = variable
            return type(node)(variable, value, self.visit(node.body))
        return type(node)(node.var, value, self.visit(node.body))


class _Statements(_Body):
    """Rewrites statements over tensors: stores become stores to buffers, realized tensors memory
    for the statement around them, launches of threads loops.
    """

    def visit_ProducerStore(self, store: Any) -> Stmt:
        buffer = self.builder.buffers[store.producer]
        indices = [self.builder.index(self.visit(index)) for index in store.indices]
        return BufferStore(buffer, self.visit(store.value), indices, None, store.span)

    def visit_ProducerRealize(self, realize: Any) -> Stmt:
        tensor = realize.producer
        shape = [self.builder.index(size) for size in tensor.shape]
        buffer = decl_buffer(shape, tensor.dtype, tensor.name, scope=realize.storage_scope)
        self.builder.buffers[tensor] = buffer
        body = DeclBuffer(buffer, self.visit(realize.body))
        return Allocate(buffer.data, buffer.dtype, shape, const(True, "bool"), body)

    def visit_AttrStmt(self, attribute: Any) -> Stmt:
        if attribute.attr_key != "thread_extent":
            return self.children(attribute)
        thread = attribute.node
        launched = IterVar(None, thread.thread_tag, IterVar.ThreadIndex, thread.thread_tag)
        extent, body = self.visit(attribute.value), self.visit(attribute.body)
        kind = ForKind.THREAD_BINDING
        return For(thread.var, const(0, extent.dtype), extent, kind, body, launched)


class _Builder:
    """Builds the function: buffers of all tensors, one block per operation."""

    def __init__(self, arguments: list[Any], index_dtype: str | None) -> None:
        self.arguments = arguments
        self.index_dtype = IndexDtype(index_dtype) if index_dtype else None
        self.sizes: dict[Var, Var] = {}
        self.buffers: dict[Any, Buffer] = {}
        self.names: dict[str, int] = {}
        self.block_names: dict[str, int] = {}
        shapes = [one.shape for one in arguments if isinstance(one, Tensor)]
        scalars = [one for one in arguments if isinstance(one, Var)]
        self.known = {*scalars, *[var for sizes in shapes for var in undefined_vars(sizes)]}

    def index(self, expr: PrimExpr) -> PrimExpr:
        """Convert an index or size to the chosen dtype; size variables get a counterpart of that
        dtype.
        """
        if self.index_dtype is None:
            return expr
        if (
            isinstance(expr, Var)
            and expr.dtype is not self.index_dtype.dtype
            and expr in self.sizes
        ):
            return self.sizes[expr]
        return self.index_dtype.convert(expr)

    def _collect_sizes(self, tensors: list[Tensor]) -> None:
        if self.index_dtype is None:
            return
        for tensor in tensors:
            for size in tensor.shape:
                if isinstance(size, Var) and size.dtype is not self.index_dtype.dtype:
                    if size not in self.sizes:
                        self.sizes[size] = type(size)(size.name, self.index_dtype.dtype)
        self.index_dtype.variables = dict(self.sizes)

    def _unique(self, table: dict[str, int], name: str) -> str:
        count = table.get(name, 0)
        table[name] = count + 1
        return name if count == 0 else self._unique(table, f"{name}_{count}")

    def _buffer(self, tensor: Tensor) -> Buffer:
        name = tensor.name.replace(".", "_")
        shape = [self.index(size) for size in tensor.shape]
        return decl_buffer(shape, tensor.dtype, self._unique(self.names, name))

    def build(self) -> PrimFunc:
        """Build the function."""
        tensors = [argument for argument in self.arguments if isinstance(argument, Tensor)]
        operations = operations_in_order(tensors)
        check_late_reads(operations)
        check_states(operations)
        outputs = [op.output(k) for op in operations for k in range(op.num_outputs)]
        self._collect_sizes(outputs)
        given = set(tensors)
        scans = [op for op in operations if isinstance(op, ScanOp)]
        updates = {op: scan for scan in scans for op in update_operations(scan)}
        states = self._shared_memory(scans)
        for tensor in outputs:
            is_input = isinstance(tensor.op, PlaceholderOp) and tensor not in states
            if is_input and tensor not in given:
                raise TypeMismatchError(
                    f"placeholder '{tensor.name}' is read, but it is not among the arguments of"
                    " create_prim_func"
                )
        params: list[Any] = []
        for argument in self.arguments:
            if isinstance(argument, Tensor):
                self.buffers[argument] = self._buffer(argument)
                params.append((argument, Var(f"var_{argument.name}", "handle")))
            else:
                params.append((argument, self.sizes.get(argument, argument)))
        allocated = []
        for tensor in outputs:
            if tensor not in self.buffers and tensor not in states:
                self.buffers[tensor] = self._buffer(tensor)
                allocated.append(self.buffers[tensor])
        self.buffers.update({tensor: self.buffers[whole] for tensor, whole in states.items()})
        statements = [
            self._statement(op)
            for op in operations
            if not isinstance(op, PlaceholderOp) and op not in updates
        ]
        root = Block((), (), (), "root", stmt_seq(*statements), None, allocated)
        return PrimFunc(
            [variable for _, variable in params],
            BlockRealize((), const(True, "bool"), root),
            None,
            {variable: self.buffers[t] for t, variable in params if isinstance(t, Tensor)},
            {"global_symbol": "main", **self._layout_free(operations), "tir.noalias": True},
        )

    def _shared_memory(self, scans: list[ScanOp]) -> dict[Tensor, Tensor]:
        """Return the tensors that live in the memory of a scan's results."""
        found: dict[Tensor, Tensor] = {}
        for scan in scans:
            for k in range(scan.num_outputs):
                parts = scan.init[k], scan.update[k], scan.state_placeholder[k]
                for tensor in parts:
                    if self._is_argument(tensor):
                        raise TypeMismatchError(
                            f"'{tensor.name}', a part of scan '{scan.name}', is no argument: it "
                            "lives in the memory of the result",
                            notes=("give the result of te.scan",),
                        )
                    found[tensor] = scan.output(k)
        return found

    def _layout_free(self, operations: list[Operation]) -> dict[str, Any]:
        """Return the positions of the parameters whose layout the compiler may choose (by an
        operation's attribute).
        """
        free = [tensor for op in operations for tensor in op.attrs.get(LAYOUT_FREE, ())]
        numbers = [
            number
            for number, argument in enumerate(self.arguments)
            if any(argument is tensor for tensor in free)
        ]
        return {"layout_free_buffers": tuple(numbers)} if numbers else {}

    def _is_argument(self, tensor: Tensor) -> bool:
        return any(argument is tensor for argument in self.arguments)

    def _statement(self, op: Operation) -> Stmt:
        if isinstance(op, ComputeOp):
            return placed(self._compute(op), op.place)
        if isinstance(op, ExternOp):
            return self._extern(op)
        if isinstance(op, ScanOp):
            return self._scan(op)
        if isinstance(op, TensorComputeOp):
            return self._intrinsic_calls(op)
        if isinstance(op, HybridOp):
            return self._hybrid(op)
        raise TypeMismatchError(f"{type(op).__name__} '{op.name}' cannot become part of a PrimFunc")

    def _iterators(self, axes: Any, mapping: dict[Var, PrimExpr]) -> tuple[list, list, list]:
        """Make loop variables with extents, block iterators, and the values bound to these."""
        loops, iterators, values = [], [], []
        for axis in axes:
            low, extent = self.index(axis.dom.min), self.index(axis.dom.extent)
            dtype = extent.dtype
            if isinstance(axis.dom.extent, Var) and axis.dom.extent in self.sizes:
                extent = self.sizes[axis.dom.extent]
            loop = Var(axis.var.name, dtype)
            iterator = IterVar(
                Range.from_min_extent(low, extent), Var("v_" + axis.var.name, dtype), axis.iter_type
            )
            mapping[axis.var] = iterator.var
            loops.append((loop, low, extent))
            iterators.append(iterator)
            values.append(loop)
        return loops, iterators, values

    def _compute(self, op: ComputeOp) -> Stmt:
        """Build the loops and the block of a computation. Several results get a block each, unless
        one reduction computes them together.
        """
        annotations = {
            key: value
            for key, value in op.attrs.items()
            if not isinstance(value, Tensor) and key != LAYOUT_FREE
        }
        inner = [one for one in op.attrs.get(LAYOUT_FREE, ()) if not self._is_argument(one)]
        if inner:
            annotations[LAYOUT_FREE] = [self.buffers[tensor] for tensor in inner]
        if self._is_one_block(op):
            loops, values, block = self._compute_block(op, None, annotations)
            return self._nest(loops, BlockRealize(values, const(True, "bool"), block))
        realizes: list[Stmt] = []
        shared: list = []
        for number in range(op.num_outputs):
            loops, values, block = self._compute_block(op, number, annotations)
            if number == 0:
                shared = loops
            renamed = {loop: first for (loop, *_), (first, *_) in zip(loops, shared)}
            values = [renamed.get(value, value) for value in values]
            realizes.append(BlockRealize(values, const(True, "bool"), block))
        return self._nest(shared, stmt_seq(*realizes))

    def _compute_block(
        self, op: ComputeOp, number: int | None, annotations: dict[str, Any]
    ) -> tuple[list, list, Block]:
        """Build loops, iterator values and the block for one result, or for all of one
        reduction.
        """
        mapping: dict[Var, PrimExpr] = {}
        loops, iterators, values = self._iterators([*op.axis, *op.reduce_axis], mapping)
        indices = [mapping[axis.var] for axis in op.axis]
        if not iterators:  # a block without iterators gets one of extent 1
            dtype = "int32" if self.index_dtype is None else self.index_dtype.dtype
            point = Range.from_min_extent(const(0, dtype), const(1, dtype))
            iterators.append(IterVar(point, Var("vi", dtype), IterVar.DataPar))
            values.append(const(0, dtype))
        check_variables(op.name, op.place, op.body, mapping, self.known)
        rewrite = _Body(self, mapping)
        wanted = range(op.num_outputs) if number is None else [number]
        targets = [self.buffers[op.output(k)] for k in wanted]
        first = op.body[0]
        if isinstance(first, Reduce):
            init, body = self._reduction(first, targets, indices, rewrite)
        else:
            init = None
            stores = [
                BufferStore(target, cast(target.dtype, rewrite.visit(value)), indices)
                for target, value in zip(targets, [op.body[k] for k in wanted])
            ]
            body = stmt_seq(*stores)
        given = op.name if number is None else op.output(number).name.replace(".", "_")
        name = self._unique(self.block_names, given)
        return loops, values, self._block(name, iterators, body, init, annotations)

    def _reduction(
        self, reduce: Reduce, targets: list[Buffer], indices: list, rewrite: _Body
    ) -> tuple[Stmt | None, Stmt]:
        """Build the first values and the update. A reduction over nothing has one value only: it
        is stored without a first one.
        """
        combiner = reduce.combiner
        # An index among the values has the dtype of indices here; as a value it keeps its own.
        sources = [
            cast(variable.dtype, rewrite.visit(source))
            for variable, source in zip(combiner.rhs, reduce.source)
        ]
        if not isinstance(reduce.condition, type(const(0))) or not reduce.condition.value:
            condition = rewrite.visit(reduce.condition)
            from tilesmith.tir import if_then_else

            sources = [
                if_then_else(condition, source, identity)
                for source, identity in zip(sources, combiner.identity_element)
            ]
        initial = [rewrite.visit(value) for value in reduce.init or combiner.identity_element]
        if not reduce.axis and not reduce.init:  # the identity and one value: the value
            return None, stmt_seq(*[BufferStore(t, v, indices) for t, v in zip(targets, sources)])
        init, before = None, initial
        if reduce.axis:
            init = stmt_seq(*[BufferStore(t, v, indices) for t, v in zip(targets, initial)])
            before = [BufferLoad(target, indices) for target in targets]
        bind = dict(zip(combiner.lhs, before)) | dict(zip(combiner.rhs, sources))
        if len(targets) == 1:
            value = _Body(self, bind).visit(combiner.result[0])
            return init, BufferStore(targets[0], value, indices)
        # Compute all results from the old values before storing any of them.
        results = [_Body(self, bind).visit(value) for value in combiner.result]
        variables = [Var(f"v_{t.name}", value.dtype) for t, value in zip(targets, results)]
        body = stmt_seq(*[BufferStore(t, v, indices) for t, v in zip(targets, variables)])
        for variable, value in zip(reversed(variables), reversed(results)):
            body = LetStmt(variable, value, body)
        return init, body

    def _block(
        self, name: str, iterators: list, body: Stmt, init: Stmt | None, annotations: dict[str, Any]
    ) -> Block:
        block = Block(iterators, (), (), name, body, init, annotations=annotations)
        reads, writes, _ = get_block_access_region(
            block, {b.data: b for b in self.buffers.values()}
        )
        if init is not None:
            written = {id(region.buffer) for region in writes}
            reads = [region for region in reads if id(region.buffer) not in written]
        return block.with_fields(reads=tuple(reads), writes=tuple(writes))

    def _nest(self, loops: list, body: Stmt) -> Stmt:
        for variable, low, extent in reversed(loops):
            body = For(variable, low, extent, ForKind.SERIAL, body)
        return body

    def _extern(self, op: ExternOp) -> Stmt:
        name = self._unique(self.block_names, op.name)
        reads: list[BufferRegion] = []
        writes: list[BufferRegion] = []
        matches: list[MatchBufferRegion] = []
        pairs = [(t, b, reads) for t, b in zip(op.inputs, op.input_placeholders)]
        pairs += [(op.output(k), b, writes) for k, b in enumerate(op.output_placeholders)]
        for tensor, placeholder, regions in pairs:
            region = BufferRegion.full_region(self.buffers[tensor])
            regions.append(region)
            matches.append(MatchBufferRegion(placeholder, region))
        body = op.body
        if isinstance(body, BlockRealize) and not body.block.iter_vars:
            inner = body.block
            block = Block((), reads, writes, name, inner.body, None, inner.alloc_buffers, matches)
        else:
            block = Block((), reads, writes, name, body, None, (), matches)
        return BlockRealize((), const(True, "bool"), block)

    def _scan(self, scan: ScanOp) -> Stmt:
        """Build the loop over the time: in it, a block for each operation of the update, whose
        first iterator is bound to the time and keeps its order.
        """
        domain = scan.scan_axis.domain
        low, extent = self.index(domain.min), self.index(domain.extent)
        time = Var(scan.scan_axis.var.name.replace(".", "_"), extent.dtype)
        steps = []
        for op in update_operations(scan):
            timed = in_order_of_time(op, scan)
            for k in range(op.num_outputs):
                self.buffers[timed.output(k)] = self.buffers[op.output(k)]
            for number in [None] if self._is_one_block(timed) else range(op.num_outputs):
                loops, values, block = self._compute_block(timed, number, {})
                realize = BlockRealize([time, *values[1:]], const(True, "bool"), block)
                steps.append(self._nest(loops[1:], realize))
        return For(time, low, extent, ForKind.SERIAL, stmt_seq(*steps))

    def _is_one_block(self, op: ComputeOp) -> bool:
        return isinstance(op.body[0], Reduce) or op.num_outputs == 1

    def _intrinsic_calls(self, op: TensorComputeOp) -> Stmt:
        """Build the loops around a block that is one call of a tensor intrinsic."""
        intrin = op.intrin
        mapping: dict[Var, PrimExpr] = {}
        outer = op.axis[: op.schedulable_ndim]
        loops, iterators, values = self._iterators([*outer, *op.reduce_axis], mapping)
        rewrite = _Body(self, mapping)
        regions = [
            self._region(tensor, [rewrite.visit(one) for one in region])
            for tensor, region in zip(op.inputs, op.input_regions)
        ]
        reads = len(regions)
        point = [Range.from_min_extent(mapping[axis.var], const(1, "int32")) for axis in outer]
        inner = [axis.domain for axis in op.axis[op.schedulable_ndim :]]
        regions += [self._region(op.output(k), [*point, *inner]) for k in range(op.num_outputs)]
        matches = [MatchBufferRegion(*pair) for pair in zip(intrin.buffers, regions)]
        init, body = None, intrin.body
        if op.reduce_axis or body is None:
            init, body = intrin.reduce_init, intrin.reduce_update
        if body is None or (op.reduce_axis and init is None):
            raise UnsupportedError(
                f"compute '{op.name}' reduces around the calls of '{intrin.name}', which has no "
                "statements for the start and one part of a reduction",
                notes=("let fcompute return three statements: the whole, the start, an update",),
            )
        if not op.reduce_axis and init is not None:
            init, body = None, stmt_seq(init, body)
        for parameter, value in reversed(list(zip(intrin.scalar_params, op.scalar_inputs))):
            body = LetStmt(parameter, cast(parameter.dtype, rewrite.visit(value)), body)
        name = self._unique(self.block_names, op.name)
        scalars = get_block_access_region(
            Block((), (), (), name, Evaluate(_tuple_of(rewrite, op)), None),
            {b.data: b for b in self.buffers.values()},
        )[0]
        block = Block(
            iterators, [*regions[:reads], *scalars], regions[reads:], name, body, init, (), matches
        )
        return self._nest(loops, BlockRealize(values, const(True, "bool"), renew_defs(block)))

    def _hybrid(self, op: HybridOp) -> Stmt:
        """Build an opaque block with the loops of a hybrid script."""
        for k, placeholder in enumerate(op.outputs):
            self.buffers[placeholder] = self.buffers[op.output(k)]
        body = _Statements(self, {}).visit(op.body)
        reads = [BufferRegion.full_region(self.buffers[tensor]) for tensor in op.input_tensors]
        results = [op.output(k) for k in range(op.num_outputs)]
        writes = [BufferRegion.full_region(self.buffers[tensor]) for tensor in results]
        name = self._unique(self.block_names, op.name)
        return BlockRealize((), const(True, "bool"), Block((), reads, writes, name, body))

    def _region(self, tensor: Tensor, ranges: list[Range]) -> BufferRegion:
        indexed = [
            Range.from_min_extent(self.index(one.min), self.index(one.extent)) for one in ranges
        ]
        return BufferRegion(self.buffers[tensor], indexed)


def _tuple_of(rewrite: _Body, op: TensorComputeOp) -> PrimExpr:
    """Return a call that reads what the scalars of intrinsic calls read."""
    return Call("handle", "tir.tvm_tuple", [rewrite.visit(one) for one in op.scalar_inputs])
