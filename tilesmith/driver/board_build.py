"""Builds programs in C for boards: one function to call, kernels, planned memory, constants.

    main(x, output, flash, sram)               what relay.build makes with Runtime("crt")
        conv2d(x, flash + 0, sram + 0)         constants lie in pools, or in the code
        dense(sram + 0, flash + 1152, output)  all tensors in between in pools, or in the code

The graph is lowered as for this process; the plan of its memory, and of what its kernels allocate,
is that of `tir.usmp`. Everything has to be known when it is compiled: nothing is allocated on a
board. Loops run in one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.codegen.c import emit_source
from tilesmith.codegen.c.dialect import identifier
from tilesmith.codegen.c.model_interface import (
    RESERVED,
    ModelInterface,
    ModelTensor,
    PlacedConstant,
    model_prefix,
)
from tilesmith.driver.graph_function import lower_graph_function
from tilesmith.driver.graph_memory import BlockMemory
from tilesmith.driver.graph_program import reason_for_program
from tilesmith.driver.graph_signature import GraphFunction
from tilesmith.driver.graph_values import ConstantTable
from tilesmith.driver.kernels import KernelTable, lower_jobs
from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import (
    Call,
    ConstantMemoryPools,
    ConstantPoolInfo,
    GlobalVar,
    IntImm,
    IRModule,
    PointerType,
    PrimExpr,
    PrimType,
    StringImm,
    Var,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
    const,
)
from tilesmith.ir.call_intrinsics import handle_add_byte_offset
from tilesmith.ir.queries import calls, is_call, nodes
from tilesmith.ir.visitor import Rewriter
from tilesmith.lowering.kernels import lower_kernels
from tilesmith.relay.backend.board_module import BoardModule, BoardTensor, NonStaticShapeError
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.name_transforms import sanitize_name
from tilesmith.runtime.packed_elements import is_packed, packed_bytes
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import (
    Allocate,
    AttrStmt,
    BufferLoad,
    For,
    ForKind,
    LetStmt,
    PrimFunc,
    Stmt,
)
from tilesmith.tir.usmp.analysis import extract_buffer_info
from tilesmith.tir.usmp.transform import convert_pool_allocations_to_offsets
from tilesmith.tir.usmp.utils import (
    ALIGNMENT,
    CANDIDATE_MEMORY_POOL_ATTR,
    BufferInfo,
    plan_pool_allocations,
)

__all__ = ["BoardOptions", "build_for_board", "check_pools"]

_MAIN = "__tvm_main__"
_SMALL, _SMALL_LOCAL = 128, 1024
"""Memory of a kernel of at most so many bytes is a local array; the second is for the scope
"local", which compilers try to keep in registers."""
_END = 1 << 60
"""A step after the last one."""
_OWN_WORKSPACE, _OWN_CONSTANTS = "workspace", "constants"


@dataclass(frozen=True)
class BoardOptions:
    """What a user chooses about a program for a board."""

    module_name: str
    is_packed: bool
    workspace_pools: WorkspaceMemoryPools | None = None
    constant_pools: ConstantMemoryPools | None = None
    has_own_io: bool = False
    """Whether inputs and outputs lie in the workspace, too."""


def check_pools(workspace: Any, constants: Any) -> None:
    """Raise TypeMismatchError for what is no description of pools."""
    for given, kind in ((workspace, WorkspaceMemoryPools), (constants, ConstantMemoryPools)):
        if given is not None and not isinstance(given, kind):
            raise TypeMismatchError(
                f"relay.build: pools are given as {kind.__name__}, not {type(given).__name__}",
                notes=(f"{kind.__name__}([pool, …])",),
            )
    names = [
        {one.pool_name for one in given.pools} if given else set()
        for given in (workspace, constants)
    ]
    both = sorted(names[0] & names[1])
    if both:
        raise ConfigError(
            f"the pool '{both[0]}' is given for constants and for what programs write",
            notes=("divide the memory: two pools with names of their own",),
        )


def build_for_board(module: IRModule, target: Target, options: BoardOptions) -> BoardModule:
    """Write the program of a module, after the graph passes, as C files.

    Raises ConfigError where a pool is too small, UnsupportedError for what a board cannot do:
    sizes that are known only when the program runs, and functions of this process.
    """
    return _BoardProgram(module, target, options).build()


class _BoardProgram:
    """The program under construction."""

    def __init__(self, module: IRModule, target: Target, options: BoardOptions) -> None:
        self.module = module
        self.target = target
        self.options = options
        self.prefix = model_prefix(options.module_name)
        self.constants = ConstantTable("p")
        self.storages: dict[Storage, Var] = {}
        self.tensors: set[Var] = set()  # the pointers of the storages, once they are lowered
        self.io: dict[Var, bool] = {}  # pointers of inputs (True) and outputs in the workspace
        self.io_places: list[tuple[str, int]] = []  # where these lie: pool, offset
        self.constant_sizes: dict[str, int] = {}

    def build(self) -> BoardModule:
        """Lower, place constants and workspace, write the files."""
        name = self._main_variable()
        kernels = KernelTable(self.module, self.target)
        memory = BlockMemory(self._own_pointers)
        graph = lower_graph_function(self.module, name, self.constants, kernels, memory)
        self._check(graph)
        inputs, outputs = self._tensors(graph, name)
        placed = self._place_constants()
        main = self._lowered_main(graph, placed, inputs, outputs)
        lowered = lower_jobs(kernels.jobs.values(), self.target, _in_one_thread)
        whole = IRModule({_MAIN: main})
        whole.update(lowered)
        whole, sizes, inside = self._plan(_renamed(whole, self._symbols(kernels)))
        has_pools = self.options.workspace_pools is not None
        interface = ModelInterface(
            self.options.module_name,
            f"{self.prefix}_{_MAIN}",
            inputs,
            outputs,
            [*placed, *sizes],
            placed,
            sizes if has_pools else {},
            {} if has_pools else sizes,
            max(self._alignment("workspace"), self._alignment("constants")),
            self.options.is_packed,
            io_places=self.io_places,
        )
        return self._files(whole, interface, inside)

    def _main_variable(self) -> GlobalVar:
        name = self.module.get_global_var("main")
        reason = reason_for_program(self.module, name)
        if reason is not None:
            raise UnsupportedError(
                f"a program for a board cannot be built: {reason}",
                notes=("on a board every size is known when the program is compiled, and only "
                       "kernels are called",),
            )  # fmt: skip
        return name

    def _check(self, graph: GraphFunction) -> None:
        """Refuse what is decided or done while the program runs in this process."""
        metadata = graph.metadata
        if metadata["shapes_function"] is not None or metadata["has_frame"] or metadata["symbols"]:
            raise NonStaticShapeError(
                "a program for a board cannot be built: sizes of 'main' are known only when it "
                "runs",
                notes=("give its inputs constant shapes",),
            )
        for call in calls(graph.function.body, "tir.tvm_call_packed"):
            words = [one.value for one in call.args if isinstance(one, StringImm)]
            raise UnsupportedError(
                f"a program for a board cannot be built: it calls {' of '.join(words[:2])}, "
                "a function of this process",
                notes=("code generators whose code is C functions of plain pointers are not "
                       "linked to boards yet",),
            )  # fmt: skip

    # Memory

    def _own_pointers(self, steps: Any, base: Var, analyzer: Analyzer) -> PrimExpr:
        """Give every storage of the workspace a pointer of its own; they are planned later."""
        for storage in [one for touched in steps for one in touched]:
            if not storage.is_workspace or storage in self.storages:
                continue
            if not isinstance(storage.size, IntImm):
                raise NonStaticShapeError(
                    f"a program for a board cannot be built: a tensor of {storage.size} bytes, "
                    "which is not constant",
                    notes=("give the inputs constant shapes",),
                )
            pointer = Var(f"sid_{len(self.storages)}", "handle")
            self.storages[storage] = pointer
            storage.become(lambda p=pointer: p)
        return const(0, "int64")

    def _alignment(self, what: str) -> int:
        return max(ALIGNMENT, int(self.target.attrs.get(f"{what}-byte-alignment") or 0))

    def _place_constants(self) -> dict[str, list[PlacedConstant]]:
        """Place each constant in the first pool with room for it."""
        alignment = self._alignment("constants")
        pools: list[ConstantPoolInfo] | None = None
        if self.options.constant_pools is not None:
            pools = _usable(self.options.constant_pools.pools, self.target)
        placed: dict[str, list[PlacedConstant]] = {}
        ends: dict[str, int] = {}
        for name, value in self.constants.arrays.items():
            dtype = DataType(str(value.dtype))
            size = _bytes_of(tuple(value.shape), dtype)
            pool = _OWN_CONSTANTS
            if pools is not None:
                pool = _first_with_room(pools, ends, size, alignment, name)
            offset = ends.get(pool, 0)
            placed.setdefault(pool, []).append(PlacedConstant(name, value.numpy(), dtype, offset))
            ends[pool] = -(-(offset + size) // alignment) * alignment
        self.constant_sizes = ends
        return placed

    def _lowered_main(
        self,
        graph: GraphFunction,
        placed: Mapping[str, Sequence[PlacedConstant]],
        inputs: Sequence[ModelTensor],
        outputs: Sequence[ModelTensor],
    ) -> PrimFunc:
        """Return the lowered function, its workspace as allocations with candidate pools."""
        table = graph.function.body
        assert isinstance(table, LetStmt) and isinstance(table.body, LetStmt)
        pools = {name: Var(f"{identifier(name)}_pool", _bytes_pointer()) for name in placed}
        addresses = {
            one.name: handle_add_byte_offset(pools[pool], const(one.byte_offset, "int64"))
            for pool, held in placed.items()
            for one in held
        }
        body = _Constants(table.var, list(self.constants.arrays), addresses).visit(table.body.body)
        tensors = graph.function.params[:-2]
        given = [*tensors, *pools.values(), *self.storages.values()]
        function = PrimFunc(
            given,
            body,
            buffer_map=graph.function.buffer_map,
            attrs={**graph.function.attrs, "global_symbol": _MAIN},
        )
        lowered: Any = lower_kernels(IRModule({_MAIN: function}), self.target)[_MAIN]
        params, count = lowered.params, len(tensors)
        pointers = params[count + len(pools) :]
        sizes = {
            pointer: int(storage.size)  # type: ignore[call-overload]
            for pointer, storage in zip(pointers, self.storages)
        }
        if self.options.has_own_io:
            self.io = {param: number < len(inputs) for number, param in enumerate(params[:count])}
            sizes.update(zip(self.io, [one.nbytes for one in (*inputs, *outputs)]))
        self.tensors.update(sizes)
        whole: Stmt = lowered.body
        for pointer, size in sizes.items():
            whole = Allocate(pointer, "uint8", [size], const(True, "bool"), whole)
        kept = [one for one in params if one not in sizes]
        made: PrimFunc = lowered.with_fields(params=kept, body=whole)
        return made

    def _plan(self, module: IRModule) -> tuple[IRModule, dict[str, int], dict[str, int]]:
        """Place all allocations in pools; return the module, the bytes that it needs of each pool,
        and the bytes that each function keeps in them at a time.
        """
        pools = [WorkspacePoolInfo(_OWN_WORKSPACE, [self.target])]
        if self.options.workspace_pools is not None:
            pools = _usable(self.options.workspace_pools.pools, self.target)
        for variable, function in _functions(module):
            module[variable] = function.with_body(
                _Candidates(pools, self.tensors).visit(function.body)
            )
        main: Any = module[f"{self.prefix}_{_MAIN}"]
        infos = extract_buffer_info(main, module)
        for info, allocation in infos.items():
            info.alignment = self._alignment("workspace")
            if allocation.buffer_var in self.io:
                is_input = self.io[allocation.buffer_var]
                info.live = (_from_the_start(info) if is_input else _to_the_end(info),)
        places = plan_pool_allocations(infos)
        found = {allocation.buffer_var: place for allocation, place in places.items()}
        self.io_places = [
            (found[one].pool_info.pool_name, found[one].byte_offset) for one in self.io
        ]
        inside: dict[str, int] = {}
        for variable, function in _functions(module):
            held = set(nodes(function.body, Allocate))
            sizes = [info.size_bytes for info, one in infos.items() if one in held]
            inside[variable.name_hint] = sum(sizes)
        planned = convert_pool_allocations_to_offsets(places)(module)
        needs: Any = planned[f"{self.prefix}_{_MAIN}"].attrs.get("pool_args", ())
        sizes_by_pool = {one.pool_info.pool_name: int(one.allocated_size) for one in needs}
        return planned, sizes_by_pool, inside

    # Names and files

    def _symbols(self, kernels: KernelTable) -> dict[str, str]:
        """Return readable names of the functions, by the names that they have so far."""
        names = {_MAIN: f"{self.prefix}_{_MAIN}"}
        taken = {_MAIN, *RESERVED}
        for name in kernels.names:
            symbol = kernels.symbol(GlobalVar(name)).name_hint
            if symbol in names:
                continue
            short = identifier(name)
            while short in taken:
                short += "_kernel"
            taken.add(short)
            names[symbol] = f"{self.prefix}_{short}"
        return names

    def _tensors(
        self, graph: GraphFunction, name: GlobalVar
    ) -> tuple[list[ModelTensor], list[ModelTensor]]:
        function = graph.function
        buffers = [function.buffer_map.get(param) for param in function.params[:-2]]
        source: Any = self.module[name]
        params = source.params
        result = graph.metadata["result"]
        leaves = result["fields"] if result["kind"] == "tuple" else [result]
        described = [*graph.metadata["params"], *leaves]
        if any(one is None for one in buffers) or any(
            one["kind"] != "tensor" or "argument" in one for one in described
        ):
            raise UnsupportedError(
                "a program for a board cannot be built: its inputs and outputs are tensors, 'main' "
                "takes or gives something else",
                notes=("make parameters, or fields of the result, of the tensors in tuples",),
            )
        names = [param.name_hint for param in params]
        given, made = buffers[: len(names)], buffers[len(names) :]
        wanted = self.module[name].attrs.get("output_tensor_names")
        if wanted is None or len(wanted) != len(made):
            wanted = ["output"] if len(made) == 1 else [f"output{k}" for k in range(len(made))]
        inputs = [_tensor(one, buffer) for one, buffer in zip(names, given)]
        outputs = [_tensor(str(one), buffer) for one, buffer in zip(wanted, made)]
        return inputs, outputs

    def _files(
        self, whole: IRModule, interface: ModelInterface, inside: Mapping[str, int]
    ) -> BoardModule:
        code = emit_source(whole)
        can_fail = "TVMFFIErrorSetRaised" in code
        if "TVMFFIFunctionCall(" in code.replace("extern int TVMFFIFunctionCall(", ""):
            raise UnsupportedError(
                "a program for a board cannot be built: a kernel calls a function of this process",
                notes=("kernels of a board are loops, and calls of C functions",),
            )
        interface = replace(interface, can_fail=can_fail)
        name = sanitize_name(self.options.module_name)
        tensors = (*interface.inputs, *interface.outputs)
        memory = {
            "pools": dict(interface.pools),
            "workspaces": dict(interface.workspaces),
            "constants": dict(self.constant_sizes),
            "functions": dict(inside),
            "alignment": interface.alignment,
            "io": dict(zip([one.member for one in tensors], interface.io_places)),
        }
        return BoardModule(
            self.options.module_name,
            {f"{name}_lib0.c": interface.source(), f"{name}_lib1.c": code},
            {f"{self.prefix}.h": interface.header()},
            [BoardTensor(**_fields(one)) for one in interface.inputs],
            [BoardTensor(**_fields(one)) for one in interface.outputs],
            memory,
            self.constants.arrays,
            str(self.target),
        )


def _from_the_start(info: BufferInfo) -> tuple[int, int]:
    """Return the live range of an input: its caller writes it before the program begins."""
    return 0, max([last for _, last in info.live])


def _to_the_end(info: BufferInfo) -> tuple[int, int]:
    """Return the live range of an output: its caller reads it when the program has ended."""
    return min([first for first, _ in info.live]), _END


def _fields(tensor: ModelTensor) -> dict[str, Any]:
    return {**vars(tensor), "dtype": str(tensor.dtype)}


def _tensor(name: str, buffer: Any) -> ModelTensor:
    shape = tuple([int(extent) for extent in buffer.shape])
    return ModelTensor(name, identifier(name), buffer.dtype, shape, _bytes_of(shape, buffer.dtype))


def _bytes_pointer() -> PointerType:
    return PointerType(PrimType("uint8"), "global")


def _bytes_of(shape: Sequence[int], dtype: DataType) -> int:
    count = 1
    for extent in shape:
        count *= int(extent)
    return packed_bytes(count, dtype) if is_packed(dtype) else count * dtype.nbytes


def _usable(pools: Sequence[Any], target: Target) -> list[Any]:
    """Return the pools that a target reaches. Raises ConfigError if there is none."""
    found = [one for one in pools if any(to.kind.name == target.kind.name for to in one.targets)]
    if not found:
        raise ConfigError(
            f"none of the pools is for the target '{target.kind.name}'",
            notes=("pools: " + ", ".join([f"{one.pool_name} for {one.targets}" for one in pools]),),
        )
    return found


def _first_with_room(
    pools: Sequence[ConstantPoolInfo], ends: Mapping[str, int], size: int, alignment: int, name: str
) -> str:
    for pool in pools:
        if pool.size_hint_bytes < 0 or ends.get(pool.pool_name, 0) + size <= pool.size_hint_bytes:
            return str(pool.pool_name)
    last = pools[-1]
    needed = ends.get(last.pool_name, 0) + size
    raise ConfigError(
        f"the pool '{last.pool_name}' has {last.size_hint_bytes} bytes, with the constant '{name}' "
        f"({size} bytes) it would need {needed}",
        notes=("give a further pool for constants, or the pool more memory",),
    )


def _functions(module: IRModule) -> list[tuple[GlobalVar, Any]]:
    return list(module.items())


def _in_one_thread(module: IRModule) -> IRModule:
    """Return scheduled functions whose parallel loops are plain ones."""
    made = module.shallow_copy()
    for variable, function in _functions(made):
        made[variable] = function.with_body(_Serial().visit(function.body))
    return made


class _Serial(Rewriter):
    """Makes plain loops of parallel ones."""

    def visit_For(self, node: For) -> Stmt:
        made: For = self.children(node)
        if made.kind is not ForKind.PARALLEL:
            return made
        return made.with_fields(kind=ForKind.SERIAL)


def _renamed(module: IRModule, names: Mapping[str, str]) -> IRModule:
    """Return a module whose functions have other names, also where they are called."""
    variables = {old: GlobalVar(new) for old, new in names.items()}
    made = IRModule()
    for variable, function in _functions(module):
        new = variables.get(variable.name_hint, variable)
        body = _Renaming(variables).visit(function.body)
        changed = function.with_body(body).with_attr("global_symbol", new.name_hint)
        made[new] = changed
    return made


class _Renaming(Rewriter):
    """Renames called functions; the marks of operators, which name them in errors, are dropped."""

    def __init__(self, variables: Mapping[str, GlobalVar]) -> None:
        self.variables = variables

    def visit_GlobalVar(self, node: GlobalVar) -> GlobalVar:
        return self.variables.get(node.name_hint, node)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "operator":
            return self.visit(node.body)
        return self.children(node)


class _Constants(Rewriter):
    """Puts addresses in pools in the place of entries of the table of constants."""

    def __init__(self, table: Var, names: Sequence[str], addresses: Mapping[str, PrimExpr]) -> None:
        self.table = table
        self.names = names
        self.addresses = addresses

    def visit_Call(self, node: Call) -> PrimExpr:
        first = node.args[0] if node.args else None
        if is_call(node, "tir.reinterpret") and isinstance(first, BufferLoad):
            if first.buffer.data is self.table:
                position = first.indices[0]
                assert isinstance(position, IntImm)
                return self.addresses[self.names[position.value]]
        return self.children(node)


class _Candidates(Rewriter):
    """Gives allocations their candidate pools: those of tensors of the graph, and the larger ones
    of kernels.
    """

    def __init__(self, pools: Sequence[WorkspacePoolInfo], tensors: Collection[Var]) -> None:
        self.pools = tuple(pools)
        self.tensors = tensors

    def visit_Allocate(self, node: Allocate) -> Stmt:
        made: Allocate = self.children(node)
        size = made.dtype.nbytes
        for extent in made.extents:
            if not isinstance(extent, IntImm):
                raise NonStaticShapeError(
                    f"a program for a board cannot be built: '{made.buffer_var.name}' has a size "
                    f"that is not constant: {extent}",
                    notes=("give the inputs constant shapes",),
                )
            size *= extent.value
        is_local = made.buffer_var.storage_scope == "local"
        if made.buffer_var not in self.tensors:
            if size <= (_SMALL_LOCAL if is_local else _SMALL):
                return made
        notes = {**made.annotations, CANDIDATE_MEMORY_POOL_ATTR: self.pools}
        return made.with_fields(annotations=notes)
