"""Lowers a graph function of kernel calls to a PrimFunc on planned memory (decision 16).

    lv = R.call_tir(cls.conv2d, (x, c0), out_sinfo=...)      conv2d(x, constants[0], workspace + 0)
    gv = R.call_tir(cls.relu, (lv,), out_sinfo=...)     →    relu(workspace + 0, output)

The new function takes its inputs and outputs as buffers, the address of an array of pointers to
constants, and the address of the workspace. It allocates nothing but tensors whose sizes depend on
data: those are reserved in the frame of the call (`runtime.frame`). Values that are not tensors
(tuples, shapes, numbers) exist at compile time only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tilesmith import relax
from tilesmith.driver.graph_cells import Cell, load_cells
from tilesmith.driver.graph_errors import cast_text, not_lowered, unknown_shape
from tilesmith.driver.graph_liveness import LaterUses, to_overwrite
from tilesmith.driver.graph_loop import find_loop, lower_append, lower_loop
from tilesmith.driver.graph_memory import BlockMemory, FunctionMemory, pointer_in, pointer_table
from tilesmith.driver.graph_signature import (
    GraphFunction,
    describe_input,
    describe_value,
    extents_of,
    sizes_function,
)
from tilesmith.driver.graph_sizes import (
    SizeTable,
    pairs_of_sizes,
    sizes_of_vector,
    vector_of_sizes,
)
from tilesmith.driver.graph_steps import (
    Step,
    access,
    fills,
    give_shape,
    number_of_bytes,
    packed_call,
    reservation,
    sequence,
)
from tilesmith.driver.graph_streams import identity
from tilesmith.driver.graph_values import (
    ConstantTable,
    ScalarValue,
    ShapeValue,
    TensorValue,
    TupleValue,
    leaves,
    same_sizes,
    static_shape,
)
from tilesmith.driver.kernel_call import (
    kernel_arguments,
    packed_arguments,
    size_assertion,
    written_operands,
)
from tilesmith.driver.kernels import KernelTable
from tilesmith.driver.memory_plan import Storage
from tilesmith.driver.observed import KernelCall
from tilesmith.ir import (
    Call,
    GlobalVar,
    IntImm,
    IRModule,
    Op,
    PrimExpr,
    StringImm,
    Var,
    const,
    operators_at,
)
from tilesmith.ir.operators import cast
from tilesmith.relax import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.relax.spec import Execution
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.tir import (
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    decl_buffer,
)

__all__ = ["GraphFunction", "lower_graph_function"]


def lower_graph_function(
    module: IRModule,
    name: GlobalVar,
    constants: ConstantTable,
    kernels: KernelTable,
    memory: FunctionMemory | None = None,
) -> GraphFunction:
    """Lower one function; add its constants and the kernels that it calls to the tables. ``memory``
    is where its tensors lie, by default a block of the host's.
    """
    return _Lowering(module, name, constants, kernels, memory or BlockMemory()).run()


class _Lowering:
    def __init__(
        self,
        module: IRModule,
        name: GlobalVar,
        constants: ConstantTable,
        kernels: KernelTable,
        memory: FunctionMemory,
    ) -> None:
        self.module, self.memory = module, memory
        self.name = name.name_hint
        self.function: Any = module[name]
        self.constants = constants
        self.kernels = kernels
        self.values: dict[Any, Any] = {}
        self.steps: list[Step] = []
        self.later = LaterUses()
        self.params: list[Any] = []  # Buffers and Vars
        self.sizes = SizeTable(self.steps)
        self.frame = Var("frame", "int64")
        self.made_inside: set[int] = set()  # the results whose sizes depend on data
        self.inputs: dict[Storage, int] = {}  # the memory of tensors that are parameters
        self.overwritten: set[Storage] = set()  # the memory that calls in place write to
        self.same_as: dict[int, int] = {}  # the results that are parameters, overwritten
        self.uses_frame = False
        self.current: relax.Call | None = None  # for errors
        self.table = pointer_table("constant_table")

    # --- the function as a whole ------------------------------------------------------------------

    def run(self) -> GraphFunction:
        """Lower inputs, bindings and outputs, plan the memory, then emit the code."""
        for param in self.function.params:
            self.values[param] = self._input(param.name_hint, param.struct_info)
        inputs = list(self.params)
        self.sizes.learn_inputs(inputs)
        self.bindings(self.function.body)
        result = self.value(self.function.body.body)
        self.match([(self.function.ret_struct_info, result, f"the result of '{self.name}'")])
        outputs = self._outputs(result)
        self.steps = self.memory.arrange(self.steps, identity(self.inputs, self.overwritten))
        touched = [step.storages for step in self.steps]
        sizes = self.memory.plan(touched, self.sizes.analyzer)
        results = leaves(result)
        late = {*self.made_inside, *self.same_as}
        early = [leaf for number, leaf in enumerate(results) if number not in late]
        metadata = self._metadata(result, early, sizes)
        main = self._prim_func(inputs, outputs)
        shapes = None
        if metadata["shapes_function"] is not None:
            shapes = sizes_function(metadata["shapes_function"], inputs, early, sizes)
        return GraphFunction(main, shapes, metadata)

    def _prim_func(self, inputs: list[Any], outputs: list[Buffer]) -> PrimFunc:
        table, frame = Var("constants", "int64"), [self.frame] if self.uses_frame else []
        whole = self.memory.bind(sequence(self.steps, self.frame))
        whole = LetStmt(self.table.data, Call("handle", "tir.reinterpret", (table,)), whole)
        return PrimFunc(
            [*inputs, *outputs, table, *self.memory.params, *frame],
            whole,
            attrs={"global_symbol": self.name, "tir.noalias": False, "tir.is_scheduled": True},
        )

    # --- inputs and outputs -----------------------------------------------------------------------

    def _input(self, name: str, info: StructInfo) -> Any:
        if isinstance(info, TupleStructInfo):
            return TupleValue(
                [self._input(f"{name}_{k}", one) for k, one in enumerate(info.fields)]
            )
        if isinstance(info, TensorStructInfo):
            shape = self._shape_of(info, f"input '{name}'")
            buffer = decl_buffer(shape, info.dtype, name, data_alignment=info.dtype.nbytes)
            storage = Storage.outside(lambda: buffer.data)
            self.inputs[storage] = len(self.params)
            self.params.append(buffer)
            return TensorValue(storage, shape, info.dtype)
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            values = []
            for number, extent in enumerate(info.values):
                known = any(param is extent for param in self.params)
                if isinstance(extent, Var) and not known:
                    self.params.append(extent)
                    values.append(extent)
                else:
                    self.params.append(Var(f"{name}_{number}", "int64"))
                    values.append(self.params[-1])
            return ShapeValue(tuple(values))
        if isinstance(info, PrimStructInfo):
            value = getattr(info, "value", None)
            variable = value if isinstance(value, Var) else Var(name, info.dtype)
            self.params.append(variable)
            return ScalarValue(variable)
        raise UnsupportedError(
            f"'{self.name}': input '{name}' is {info}, a tensor, shape, number or tuple is needed"
        )

    def _shape_of(self, info: TensorStructInfo, what: str) -> tuple[PrimExpr, ...]:
        values = static_shape(info)
        if values is None:
            raise unknown_shape(self.name, what, info, self.current)
        return self.sizes.resolve(values)

    def _outputs(self, result: Any) -> list[Buffer]:
        """Make buffers for the leaves of the result. A leaf's storage becomes the output buffer
        where possible; otherwise the leaf is copied.
        """
        buffers: list[Buffer] = []
        taken: set[int] = set()
        for place, leaf in enumerate(leaves(result)):
            if isinstance(leaf, TensorValue) and leaf.storage in self.overwritten:
                number = self.inputs.get(leaf.storage, -1)
                if number >= 0 and same_sizes(self.params[number].shape, leaf.shape):
                    self.same_as[place] = number
                    continue
            if not isinstance(leaf, ScalarValue):
                sizes = leaf.values if isinstance(leaf, ShapeValue) else leaf.shape
                if not self.sizes.is_early(sizes):
                    self._make_inside(place, leaf, taken)
                    continue
            if isinstance(leaf, ShapeValue):
                continue
            number = len(buffers)
            if isinstance(leaf, ScalarValue):
                buffer = decl_buffer((), leaf.value.dtype, f"output_{number}")
                buffers.append(buffer)
                self.steps.append(Step(partial(BufferStore, buffer, leaf.value, ())))
                continue
            buffer = decl_buffer(
                leaf.shape, leaf.dtype, f"output_{number}", data_alignment=leaf.dtype.nbytes
            )
            buffers.append(buffer)
            whole = leaf.storage.is_workspace and fills(leaf, self.sizes.analyzer)
            if whole and id(leaf.storage) not in taken:
                taken.add(id(leaf.storage))
                leaf.storage.become(lambda b=buffer: b.data)
            else:
                target = TensorValue(
                    Storage.outside(lambda b=buffer: b.data), leaf.shape, leaf.dtype
                )
                self.copy(leaf, target)
        return buffers

    def _make_inside(self, place: int, leaf: TensorValue | ShapeValue, taken: set[int]) -> None:
        """Make a result whose sizes depend on data: in the storage of the leaf where possible."""
        self.made_inside.add(place)
        self.uses_frame = True
        if isinstance(leaf, ShapeValue):
            self.steps.append(give_shape(self.frame, place, leaf))
            return
        storage = leaf.storage
        is_taken = storage.reservation is None or id(storage) in taken
        if is_taken or not fills(leaf, self.sizes.analyzer):
            storage = self._reserve(leaf.shape, leaf.dtype)
            self.copy(leaf, TensorValue(storage, leaf.shape, leaf.dtype))
        taken.add(id(storage))
        assert storage.reservation is not None
        storage.reservation.output = (place, leaf.dtype, leaf.shape)

    def _reserve(self, shape: tuple[PrimExpr, ...], dtype: DataType) -> Storage:
        storage = Storage.reserved(number_of_bytes(shape, dtype))
        self.uses_frame = True
        self.steps.append(reservation(storage, self.frame))
        return storage

    # --- bindings ---------------------------------------------------------------------------------

    def bindings(self, body: relax.SeqExpr) -> None:
        for binding in self.later.walk(body):
            is_cast = isinstance(binding, relax.MatchCast)
            made = self._match_cast(binding) if is_cast else self._bound(binding.var, binding.value)
            self.values[binding.var] = made

    def value(self, expr: Any) -> Any:
        """Return the value of an expression that contains no calls."""
        found = self.values.get(expr)
        if found is not None:
            return found
        if isinstance(expr, relax.Constant):
            return self._constant(expr)
        if isinstance(expr, relax.Tuple):
            return TupleValue([self.value(item) for item in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value).fields[expr.index]
        if isinstance(expr, relax.ShapeExpr):
            return ShapeValue(self.sizes.resolve(expr.values))
        if isinstance(expr, relax.PrimValue):
            return ScalarValue(self.sizes.resolve([expr.value])[0])
        raise UnsupportedError(
            f"'{self.name}': {type(expr).__name__} cannot be compiled to native code here: {expr}"
        )

    def _constant(self, constant: relax.Constant) -> TensorValue:
        position = self.constants.position(constant)
        info = constant.struct_info
        shape = self._shape_of(info, "a constant")
        pointer = partial(pointer_in, self.table, position)
        return TensorValue(Storage.constant(pointer), shape, info.dtype)

    def _bound(self, variable: Any, expr: Any) -> Any:
        if isinstance(expr, relax.Call):
            return self._call(variable, expr)
        if isinstance(expr, relax.If):
            return self._if(variable, expr)
        if isinstance(expr, relax.SeqExpr):
            self.bindings(expr)
            return self.value(expr.body)
        return self.value(expr)

    def _match_cast(self, binding: relax.MatchCast) -> Any:
        """Give a value new symbolic sizes: define the new ones, check the known ones."""
        value = self.value(binding.value)
        info = binding.struct_info
        what = cast_text(binding, self.name)
        if isinstance(value, TensorValue) and isinstance(info, TensorStructInfo):
            if value.dtype is not info.dtype and not info.dtype.is_void:
                raise ShapeError(f"'{self.name}': match_cast of {value.dtype} to {info.dtype}")
            sizes = static_shape(info)
            if sizes is None and info.ndim in (-1, len(value.shape)):
                return value
            if (info.ndim if sizes is None else len(sizes)) != len(value.shape):
                raise ShapeError(
                    f"'{self.name}': {what}: {len(value.shape)} dimensions to {info.ndim}"
                )
            self.sizes.define_shape(sizes or (), value.shape, what)
            return TensorValue(value.storage, self.sizes.resolve(sizes or ()), value.dtype)
        if isinstance(value, ShapeValue) and isinstance(info, ShapeStructInfo):
            if info.values is None:
                return value
            self.sizes.define_shape(info.values, value.values, what)
            return ShapeValue(self.sizes.resolve(info.values))
        return value

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, variable: Any, call: relax.Call) -> Any:
        op, self.current = call.op, call
        if isinstance(op, GlobalVar):
            callee = self.module[op]
            if isinstance(callee, PrimFunc):
                return self._call_kernel(call, op, relax.Tuple(call.args))
            return self._inline(call, callee)
        spec = op.spec if isinstance(op, Op) else None
        if spec is not None:
            if spec.execution is Execution.CALL_TIR:
                return self._call_tir(call)
            if spec.execution is Execution.CALL_KERNEL:
                return self._call_kernel(call, call.args[0], call.args[1])
            if spec.execution is Execution.CALL_DPS_PACKED:
                return self._call_dps(call)
            if spec.view_of is not None:
                return self._view(variable, call, call.args[spec.view_of])
            if spec.execution is Execution.APPEND:
                return lower_append(self, call, self._new(call.struct_info, "append"))
            if spec.execution is Execution.SHAPE_OF:
                return ShapeValue(self.value(call.args[0]).shape)
            if spec.execution is Execution.TENSOR_TO_SHAPE:
                step, shape = sizes_of_vector(self.name, call, self.value(call.args[0]))
                self.steps.append(step)
                return shape
            if spec.execution is Execution.SHAPE_TO_TENSOR:
                step, vector = vector_of_sizes(self.value(call.args[0]))
                self.steps.append(step)
                return vector
        raise not_lowered(self.name, call)

    def _new(self, info: StructInfo, what: str) -> Any:
        if isinstance(info, TupleStructInfo):
            return TupleValue([self._new(one, what) for one in info.fields])
        if not isinstance(info, TensorStructInfo):
            raise UnsupportedError(
                f"'{self.name}': the result of {what} is {info}, a tensor is needed"
            )
        shape = self._shape_of(info, f"the result of {what}")
        return self.new_tensor(shape, info.dtype, f"the result of {what}")

    def new_tensor(self, shape: tuple[PrimExpr, ...], dtype: DataType, what: str) -> TensorValue:
        """Return a tensor in memory of its own."""
        if self.sizes.is_early(shape):
            return TensorValue(Storage.workspace(number_of_bytes(shape, dtype)), shape, dtype)
        self.sizes.check(shape, what)
        return TensorValue(self._reserve(shape, dtype), shape, dtype)

    def _call_tir(self, call: relax.Call) -> Any:
        kernel: GlobalVar = call.args[0]
        arguments = leaves(self.value(call.args[1]))
        given = call.attrs.get("inplace_indices") if call.attrs is not None else None
        inplace = [] if given is None else list(given)
        result = self._new(call.sinfo_args[0], kernel.name_hint)
        results = leaves(result)
        for number, index in enumerate(inplace):
            if index >= 0:
                arguments[index] = to_overwrite(self, arguments[index])
                results[number].storage = arguments[index].storage
        kept = [r for n, r in enumerate(results) if n >= len(inplace) or inplace[n] < 0]
        sizes = list(self.value(call.args[2]).values) if len(call.args) > 2 else []
        self._run_kernel(call, kernel, [*arguments, *kept], results, sizes)
        return result

    def _call_kernel(self, call: relax.Call, kernel: GlobalVar, given: Any) -> TupleValue:
        """Call a kernel whose results are among its arguments; the sizes of shapes come last."""
        arguments = leaves(self.value(given))
        sizes = [size for one in arguments if isinstance(one, ShapeValue) for size in one.values]
        operands = [one for one in arguments if not isinstance(one, ShapeValue)]
        written = written_operands(self.module[kernel], operands)
        self.overwritten.update([operand.storage for operand in written])
        self._run_kernel(call, kernel, operands, written, sizes)
        return TupleValue([])

    def _run_kernel(
        self, call: relax.Call, kernel: GlobalVar, operands: list[Any], written: list[Any],
        sizes: list[PrimExpr],
    ) -> None:  # fmt: skip
        function: PrimFunc = self.module[kernel]
        words, checks = kernel_arguments(kernel, function, operands, sizes, self.sizes.analyzer)
        for check in checks:
            self.steps.append(Step(partial(size_assertion, check)))
        touched = [one.storage for one in operands if isinstance(one, TensorValue)]
        symbol = self.kernels.symbol(kernel)
        place = operators_at(call.span)

        def run() -> Stmt:
            step = Evaluate(Call("void", symbol, [word() for word in words]))
            if not place:
                return step
            return AttrStmt(const(0, "int32"), "operator", StringImm(place), step)

        name, writes = kernel.name_hint, [one.storage for one in written]
        step = Step(run, touched, writes=writes, name=name)
        self._add(step, KernelCall(name, place, function), operands)

    def _call_dps(self, call: relax.Call) -> Any:
        """Call a registered function with tensors of its own (see
        ``runtime.builtins.call_dps``).
        """
        symbol = call.args[0].global_symbol
        arguments = leaves(self.value(call.args[1]))
        result = self._new(call.sinfo_args[0], symbol)
        operands = [*[("in", one) for one in arguments], *[("out", one) for one in leaves(result)]]
        specification, words, touched = packed_arguments(operands)
        head = (StringImm(symbol), StringImm(specification))

        def run() -> Stmt:
            name = "tilesmith.runtime.call_dps"
            return Evaluate(packed_call("int32", name, *head, *[word() for word in words]))

        seen = KernelCall(symbol, operators_at(call.span), None)
        self._add(Step(run, touched, name=symbol), seen, operands)
        return result

    def _view(self, variable: Any, call: relax.Call, viewed: Any) -> TensorValue:
        """Return the same memory with another shape."""
        source: TensorValue = self.value(viewed)
        info = variable.struct_info if variable is not None else call.struct_info
        name = call.op.name if variable is None else variable.name_hint
        shape = self._shape_of(info, f"'{name}'")
        self.sizes.check_view(source.shape, shape, call.op.name)
        return TensorValue(source.storage, shape, source.dtype)

    def _inline(self, call: relax.Call, function: Any) -> Any:
        """Inline a call of another graph function."""
        if not isinstance(function, relax.Function) or function.body is None:
            raise UnsupportedError(
                f"'{self.name}' calls '{call.op.name_hint}', which is not a graph function"
            )
        name = call.op.name_hint
        arguments = [self.value(argument) for argument in call.args]
        outer, self.values = self.values, dict(self.values)
        loop = find_loop(call.op, function)
        with self.sizes.scope():
            if loop is not None:
                result = lower_loop(self, name, loop, arguments)
            else:
                self.values.update(zip(function.params, arguments))
                self.match(
                    [
                        (param.struct_info, value, f"argument '{param.name_hint}'")
                        for param, value in zip(function.params, arguments)
                    ]
                )
                self.bindings(function.body)
                result = self.value(function.body.body)
        self.values = outer
        return result

    def match(self, given: Sequence[tuple[StructInfo, Any, str]]) -> None:
        """Define the symbolic sizes of parameters by the values that they get.

        One parameter may have sizes that a later one defines: ``x: (c + 1,), sizes: [c]``.
        """
        found: list[tuple[PrimExpr, PrimExpr, str]] = []
        for info, value, what in given:
            found += [(*pair, what) for pair in pairs_of_sizes(info, value)]
        self.sizes.define(found)

    def _if(self, variable: Any, expr: relax.If) -> Any:
        """Lower both branches; each writes its result to memory that they share."""
        condition = self.value(expr.cond)
        result = self._result_of(variable.struct_info, f"'{variable.name_hint}'")
        branches = []
        for branch in (expr.true_branch, expr.false_branch):
            with self.branch() as steps:
                self.bindings(branch)
                for source, target in zip(leaves(self.value(branch.body)), leaves(result)):
                    if isinstance(target, Cell):
                        self.steps.append(target.store(source))
                    else:
                        self.copy(source, target)
            branches.append(steps)
        self.choose(condition, branches)
        return load_cells(result, self.steps)

    def _result_of(self, info: StructInfo, what: str) -> Any:
        """Make places for the result of branches: memory, or cells where the shapes may differ."""
        if isinstance(info, TupleStructInfo):
            return TupleValue([self._result_of(one, what) for one in info.fields])
        if isinstance(info, TensorStructInfo) and info.ndim >= 0:
            sizes = static_shape(info)
            if sizes is None or not all(self.sizes.has(size) for size in sizes):
                self.uses_frame = True
                return Cell(self.frame, (None,) * info.ndim, info.dtype)
        return self._new(info, what)

    def choose(self, condition: Any, branches: list[list[Step]]) -> None:
        """Add the step that carries out the first or the second list of steps."""
        touched = [s for steps in branches for step in steps for s in step.storages]
        if isinstance(condition, TensorValue):
            touched.append(condition.storage)

        def emit() -> Stmt:
            bodies = [sequence(steps, self.frame) for steps in branches]
            if isinstance(condition, ScalarValue):
                return IfThenElse(condition.value, bodies[0], bodies[1])

            def use(buffer: Buffer) -> Stmt:
                test = BufferLoad(buffer, [const(0, "int32")])
                return IfThenElse(cast("bool", test), bodies[0], bodies[1])

            return access(condition.storage.pointer(), 1, condition.dtype, "condition", use)

        self.steps.append(Step(emit, touched))

    @contextmanager
    def branch(self) -> Iterator[list[Step]]:
        """Collect steps in a list of their own; what they define holds only inside."""
        outer, values = self.steps, self.values
        self.steps, self.values = [], dict(values)
        self.sizes.steps = self.steps
        with self.sizes.scope():
            yield self.steps
        self.steps = self.sizes.steps = outer
        self.values = values

    def copy(self, source: Any, target: TensorValue) -> None:
        size = number_of_bytes(target.shape, target.dtype)
        step = self.memory.copy(source.storage, target.storage, size)
        call = KernelCall("copy", "", None, target.dtype)
        self._add(step, call, [("in", source), ("out", target)])

    def _add(self, step: Step, call: KernelCall, operands: Sequence[Any]) -> None:
        """Add the step of a call that observers may see."""
        self.steps.append(self.kernels.marks.around(step, call, operands, self.memory.place))

    # --- memory -----------------------------------------------------------------------------------

    def _metadata(self, result: Any, early: list[Any], sizes: list[PrimExpr]) -> dict[str, Any]:
        params = [describe_input(p.name_hint, p.struct_info) for p in self.function.params]
        fixed = [size.value for size in sizes if isinstance(size, IntImm)]
        dynamic = len(fixed) < len(sizes)
        symbolic = any(not isinstance(extent, IntImm) for extent in extents_of(early))
        metadata: dict[str, Any] = {
            "params": params,
            "result": describe_value(result, self.made_inside, self.same_as),
            "symbols": sorted({variable.name for variable in self.sizes.known}),
            "workspace_bytes": "dynamic" if dynamic else sum(fixed),
            "shapes_function": f"{self.name}_shapes" if dynamic or symbolic else None,
            "has_frame": self.uses_frame,
        }
        return metadata | self.memory.described(sizes)
