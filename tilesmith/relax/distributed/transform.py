"""Passes from a program with annotations to the program of each worker.

    PropagateSharding            annotations become placements of all tensors, with ``redistribute``
                                 where an operator needs another one
    LowerGlobalViewToLocalView   ``ccl.allreduce`` adds up results of which workers have summands
    LegalizeRedistribute         ``redistribute`` becomes collectives
    LowerDistIR                  tensors are what one worker holds; parameters come from worker 0

The last three work on meshes with one axis. They belong before LegalizeOps: what operators do with
axes is known by their rules (`op.sharding_rules`), of kernels it is not.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.ir.transform import Pass, module_pass
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.op import ccl, dist, permute_dims
from tilesmith.relax.op.sharding_rules import Plan, plan, spread_parts
from tilesmith.relax.sharding import DeviceMesh, DTensorStructInfo, Placement
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

__all__ = [
    "LegalizeRedistribute", "LowerDistIR", "LowerGlobalViewToLocalView", "PropagateSharding",
]  # fmt: skip

_ANNOTATE = dist.annotate_sharding.op
_REDISTRIBUTE = dist.redistribute.op
_KERNELS = (Execution.CALL_TIR, Execution.CALL_DPS_PACKED, Execution.CALL_PACKED)


class _Rewrite:
    """Rewrites a function binding for binding; subclasses say what becomes of a value."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.builder = BlockBuilder()
        self.new: dict[Var, Any] = {}

    def param(self, var: Var) -> Var:
        """Return the new parameter."""
        return var

    def begin(self) -> None:
        """Emit what stands before the function's own bindings."""

    def value(self, value: Any) -> Any:
        """Return what takes the place of a value, whose operands are new."""
        return value

    def run(self) -> Function:
        """Return the new function."""
        function = self.function
        if function.body is None:
            return function
        params = [self.param(one) for one in function.params]
        self.new.update(zip(function.params, params))
        blocks: list[BindingBlock] = []
        for number, block in enumerate(function.body.blocks):
            is_dataflow = isinstance(block, DataflowBlock)
            if is_dataflow:
                self.builder.begin_dataflow_block()
            else:
                self.builder.begin_binding_block()
            if number == 0:
                self.begin()
            for binding in block.bindings:
                self._binding(binding)
            blocks.append(self.builder.end_block())
        body = SeqExpr(blocks, self.operand(function.body.body))
        return Function(params, body, None, function.is_pure, function.attrs, function.span)

    def _binding(self, binding: Any) -> None:
        if not isinstance(binding, VarBinding):
            raise UnsupportedError("tensors that are spread over workers have no match_cast")
        value = self.value(self.operand(binding.value))
        if isinstance(value, Var):
            self.new[binding.var] = value
            value = self.builder.lookup_binding(value) if self._is_output(binding.var) else None
            if value is None and not self._is_output(binding.var):
                return
            value = self.new[binding.var]
        value = self.builder.normalize(value)
        made = type(binding.var)(binding.var.name_hint, known_struct_info(value))
        self.builder.emit_normalized(VarBinding(made, value, binding.span))
        self.new[binding.var] = made

    @staticmethod
    def _is_output(var: Var) -> bool:
        return type(var) is Var

    def operand(self, value: Any) -> Any:
        """Return a value with new variables in place of the old ones."""
        if isinstance(value, Var):
            return self.new.get(value, value)
        if isinstance(value, Tuple):
            return Tuple([self.operand(one) for one in value.fields])
        if isinstance(value, TupleGetItem):
            return TupleGetItem(self.operand(value.tuple_value), value.index)
        if isinstance(value, Call):
            args = [self.operand(one) for one in value.args]
            infos = list(value.sinfo_args) or None
            return Call(value.op, args, value.attrs, infos, value.span)
        return value


def _spec(value: Any) -> Any:
    return value.op.spec if isinstance(value, Call) and isinstance(value.op, Op) else None


def _refuse_kernels(value: Any) -> None:
    spec = _spec(value)
    if spec is not None and spec.execution in _KERNELS:
        raise UnsupportedError(
            f"what {value.op.name} does with the axes of its tensors is not known",
            notes=("run the passes of relax.distributed before LegalizeOps",),
        )


class _Propagate(_Rewrite):
    """Gives each tensor a placement."""

    def __init__(self, function: Function, mesh: DeviceMesh) -> None:
        super().__init__(function)
        self.mesh = mesh
        self.count = len(mesh.shape)
        self.wanted = self._of_params()

    def _of_params(self) -> dict[Var, Placement]:
        """Return the placements of parameters: what is annotated, and what a parameter's first use
        needs.
        """
        params = set(self.function.params)
        found: dict[Var, Placement] = {}
        known: dict[Var, Placement] = {}
        values = _values(self.function)
        for _, value in values:
            if _is_annotation(value) and value.args[0] in params:
                found.setdefault(value.args[0], value.attrs.placement)
        known.update(found)
        copies = Placement.of([None] * self.count)
        for var, value in values:
            if _is_annotation(value):
                known[var] = value.attrs.placement
            elif _spec(value) is not None:
                infos = [known_struct_info(arg) for arg in value.args]
                given = [known.get(arg, copies).axes for arg in value.args]
                made = plan(value, infos, given, self.count)
                for arg, placement in zip(value.args, made.operands):
                    if isinstance(arg, Var) and arg in params and arg not in known:
                        found[arg] = known[arg] = placement
                known[var] = made.result
        return found

    def _spread(self, info: StructInfo, placement: Placement) -> DTensorStructInfo:
        assert isinstance(info, TensorStructInfo)
        return DTensorStructInfo(info, self.mesh, placement)

    def param(self, var: Var) -> Var:
        """Return a parameter with its placement."""
        info = known_struct_info(var)
        if not isinstance(info, TensorStructInfo):
            return var
        copies = Placement.of([None] * self.count)
        return Var(var.name_hint, self._spread(info, self.wanted.get(var, copies)), var.span)

    def value(self, value: Any) -> Any:
        """Return a call whose operands are placed as it needs them."""
        _refuse_kernels(value)
        if _is_annotation(value):
            return self._placed(value.args[0], value.attrs.placement)
        spec = _spec(value)
        if spec is None or not value.args:
            return value
        infos = [known_struct_info(arg) for arg in value.args]
        if not any(spread_parts(arg) for arg in value.args):
            return value
        copies = (None,) * self.count
        given = [
            info.placement.axes if isinstance(info, DTensorStructInfo) else copies for info in infos
        ]
        made = plan(value, infos, given, self.count)
        args = [
            self._placed(arg, placement) if isinstance(info, TensorStructInfo | DTensorStructInfo)
            else self._copied(arg)
            for arg, info, placement in zip(value.args, infos, made.operands)
        ]  # fmt: skip
        return Call(value.op, args, value.attrs, list(value.sinfo_args) or None, value.span)

    def _copied(self, arg: Any) -> Any:
        """Return a written tuple whose tensors are copies; any other argument as it is."""
        if not isinstance(arg, Tuple) or not spread_parts(arg):
            return arg
        copies = Placement.of([None] * self.count)
        return Tuple([self._placed(one, copies) for one in arg.fields])

    def _placed(self, value: Any, placement: Placement) -> Any:
        info: Any = known_struct_info(value)
        if isinstance(info, TensorStructInfo) and isinstance(value, Constant):
            if placement.axes == (None,) * self.count:
                return value
            copies = Placement.of([None] * self.count)
            value, info = Constant(value.data, self._spread(info, copies)), None
        if isinstance(info, DTensorStructInfo) and info.placement == placement:
            return value
        made = dist.redistribute(value, self.mesh, placement)
        return self.builder.emit(made)


def _values(function: Function) -> list[tuple[Var, Any]]:
    blocks = function.body.blocks if function.body is not None else ()
    return [(one.var, one.value) for block in blocks for one in block.bindings]


def _is_annotation(value: Any) -> bool:
    return getattr(value, "op", None) is _ANNOTATE


def _meshes(function: Function) -> list[DeviceMesh]:
    found: list[DeviceMesh] = []
    infos = [known_struct_info(param) for param in function.params]
    for _, value in _values(function):
        if getattr(value, "op", None) in (_ANNOTATE, _REDISTRIBUTE):
            found.append(value.attrs.device_mesh)
        infos.append(known_struct_info(value))
    found += [info.device_mesh for info in infos if isinstance(info, DTensorStructInfo)]
    return found


def _one_mesh(function: Function) -> DeviceMesh | None:
    meshes = _meshes(function)
    if any(mesh != meshes[0] for mesh in meshes):
        raise TypeMismatchError("the tensors of a function are on one mesh, found several")
    return meshes[0] if meshes else None


def _one_axis(mesh: DeviceMesh) -> int:
    """Return the number of workers of a mesh with one axis."""
    if len(mesh.shape) != 1:
        raise UnsupportedError(
            f"the mesh has the shape {mesh.shape}: collectives are written for one axis",
            notes=("use a mesh of the shape (n,)",),
        )
    return mesh.shape[0]


class _AddUp(_Rewrite):
    """Adds up results of which workers have summands."""

    def value(self, value: Any) -> Any:
        """Return a call, followed by ``allreduce`` where its result is a sum over workers."""
        _refuse_kernels(value)
        info = known_struct_info(value) if isinstance(value, Call) else None
        if not isinstance(info, DTensorStructInfo) or _is_collective(value):
            return value
        _one_axis(info.device_mesh)
        infos = [known_struct_info(arg) for arg in value.args]
        given = [
            one.placement.axes if isinstance(one, DTensorStructInfo) else (None,) for one in infos
        ]
        made: Plan = plan(value, infos, given, 1)
        if not made.is_partial:
            return value
        summand = self.builder.emit(value)
        return ccl.allreduce(summand, "sum")


def _is_collective(value: Call) -> bool:
    return isinstance(value.op, Op) and value.op.name.startswith(("relax.dist.", "relax.ccl."))


class _Legalize(_Rewrite):
    """Writes redistribution as collectives."""

    def value(self, value: Any) -> Any:
        """Return the steps that spread a tensor otherwise."""
        if getattr(value, "op", None) is not _REDISTRIBUTE:
            return value
        source, (wanted,) = value.args[0], value.attrs.placement.axes
        count = _one_axis(value.attrs.device_mesh)
        info = known_struct_info(source)
        if not isinstance(info, DTensorStructInfo):
            raise TypeMismatchError(
                "redistribute is legalised after PropagateSharding: its tensor is not spread yet"
            )
        (axis,) = info.placement.axes
        if axis == wanted:
            return source
        if axis is not None:
            source = self._gathered(source, axis, info.ndim, count)
        if wanted is None:
            return source
        if not isinstance(source, (Var, Constant)):
            source = self.builder.emit(source)
        return dist.redistribute_replica_to_shard(source, num_workers=count, axis=wanted)

    def _gathered(self, source: Any, axis: int, rank: int, count: int) -> Any:
        """Return all parts of a tensor, which are joined along the first axis."""
        if axis == 0:
            return ccl.allgather(source, num_workers=count)
        order = [axis, *[one for one in range(rank) if one != axis]]
        first = self.builder.emit(permute_dims(source, order))
        joined = self.builder.emit(ccl.allgather(first, num_workers=count))
        return permute_dims(joined, [order.index(one) for one in range(rank)])


class _Local(_Rewrite):
    """Makes tensors what one worker holds."""

    def param(self, var: Var) -> Var:
        """Return a parameter that worker 0 has as a whole."""
        info = known_struct_info(var)
        if not isinstance(info, DTensorStructInfo):
            return var
        return Var(var.name_hint, info.tensor_sinfo, var.span)

    def begin(self) -> None:
        """Hand the parameters to the workers."""
        for old in self.function.params:
            info = known_struct_info(old)
            if not isinstance(info, DTensorStructInfo):
                continue
            count, (axis,) = _one_axis(info.device_mesh), info.placement.axes
            info.local()  # sizes that cannot be divided are refused here
            given = self.new[old]
            if axis is None:
                made = ccl.broadcast_from_worker0(given)
            else:
                made = ccl.scatter_from_worker0(given, num_workers=count, axis=axis)
            self.new[old] = self.builder.emit(made)

    def value(self, value: Any) -> Any:
        """Return a value; what is inferred for it follows from its new operands."""
        if isinstance(value, Call) and value.op in (_REDISTRIBUTE, _ANNOTATE):
            raise UnsupportedError(
                f"{value.op.name} is left", notes=("run LegalizeRedistribute before",)
            )
        _refuse_kernels(value)
        return value

    def operand(self, value: Any) -> Any:
        """Return a value; constants are what each worker has."""
        if isinstance(value, Constant) and isinstance(value.struct_info, DTensorStructInfo):
            return Constant(value.data)
        return super().operand(value)


def _pass(name: str, meaning: str, rewrite: Any) -> Pass:
    def apply(mod: IRModule, ctx: Any) -> IRModule:
        changed = mod.shallow_copy()
        for variable, function in mod.functions.items():
            mesh = _one_mesh(function) if isinstance(function, Function) else None
            if mesh is not None:
                changed[variable] = rewrite(function, mesh).run()
        return changed

    made: Pass = module_pass(apply, opt_level=0, name=name)
    made.__doc__ = meaning
    return made


def PropagateSharding() -> Pass:
    """Return the pass that turns annotations into placements of all tensors."""
    return _pass("PropagateSharding", "Places all tensors.", _Propagate)


def LowerGlobalViewToLocalView() -> Pass:
    """Return the pass that adds up results of which workers have summands."""
    return _pass(
        "LowerGlobalViewToLocalView", "Adds up summands.", lambda function, mesh: _AddUp(function)
    )


def LegalizeRedistribute() -> Pass:
    """Return the pass that writes redistribution as collectives."""
    return _pass(
        "LegalizeRedistribute", "Writes collectives.", lambda function, mesh: _Legalize(function)
    )


def LowerDistIR() -> Pass:
    """Return the pass that makes the program of one worker."""
    return _pass("LowerDistIR", "Makes tensors local.", lambda function, mesh: _Local(function))
