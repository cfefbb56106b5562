"""Writes statements as text of a dialect for devices."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c_family.memory import pointed_dtype, pointer_space
from tilesmith.codegen.c_family.pieces import UNARY
from tilesmith.codegen.c_family.statements import CommonStatements, has_effect
from tilesmith.codegen.facts import constant_bytes, constant_value
from tilesmith.codegen.gpu.async_copies import begin_wait, end_group
from tilesmith.codegen.gpu.fragments import declare_fragments, is_fragment
from tilesmith.codegen.gpu.lines import Lines
from tilesmith.codegen.gpu.registers import indexes_registers
from tilesmith.codegen.gpu.values import Values
from tilesmith.codegen.gpu.vectors import load_vectors, store_lane, store_vector
from tilesmith.ir import Call, Node, StringImm
from tilesmith.ir.queries import any_node, is_call
from tilesmith.support.errors import TilesmithError
from tilesmith.tir import stmt as tir
from tilesmith.tir.expr import IterVar

__all__ = ["StatementWriter"]

_FORBIDDEN = ("virtual_thread", "coproc_scope")


class StatementWriter(CommonStatements):
    """Writes the statements of one kernel. ``threads`` has the names of its thread indices."""

    def __init__(self, emit: Values) -> None:
        super().__init__(emit)
        self.emit: Values = emit
        self.out: Lines = emit.out
        self.threads: dict[str, str] = {}
        self.returns = "void"

    def visit(self, stmt: Any) -> Any:
        """Write a statement; what refuses it is raised with its place in the program."""
        try:
            return super().visit(stmt)
        except TilesmithError as error:
            if error.span is None:
                error.span = getattr(stmt, "span", None)
            raise

    def visit_Evaluate(self, stmt: tir.Evaluate) -> None:
        value, emit = stmt.value, self.emit
        emit.begin_statement(value)
        if is_call(value, "tir.ret"):
            is_plain = self.returns == "void" or not value.args
            self.out.write("return;" if is_plain else f"return {emit.text(value.args[0])};")
        elif has_effect(value):
            lanes = range(value.dtype.lanes) if value.dtype.lanes > 1 else [None]
            for lane in lanes:
                emit.lane = lane
                written = emit.text(value)
                if written not in ("0", ""):
                    self.out.write(f"{written};")
            emit.lane = None

    def visit_BufferStore(self, stmt: tir.BufferStore) -> None:
        emit = self.emit
        roots = [stmt.value, *stmt.indices, *([] if stmt.predicate is None else [stmt.predicate])]
        emit.begin_statement(*roots)
        emit.file.use(stmt.buffer.dtype)
        load_vectors(emit, *roots)
        if stmt.value.dtype.lanes > 1:
            store_vector(emit, stmt)
        else:
            store_lane(emit, stmt, emit.text(stmt.value))

    def visit_LetStmt(self, stmt: tir.LetStmt) -> None:
        emit, var = self.emit, stmt.var
        emit.begin_statement(stmt.value)
        if var.dtype.lanes > 1:
            load_vectors(emit, stmt.value)
            emit.names[var] = emit.define_vector(var.name, stmt.value)
        elif var.dtype.is_handle:
            self._let_pointer(stmt)
        else:
            emit.define(var, emit.text(stmt.value))
            emit.learn(var, stmt.value)
        self.visit(stmt.body)

    def _let_pointer(self, stmt: tir.LetStmt) -> None:
        emit, var = self.emit, stmt.var
        value = emit.text(stmt.value, UNARY)
        element = emit.pointer_types[var] = pointed_dtype(var)
        space, is_const = pointer_space(emit, stmt.value)
        emit.spaces[var] = space
        const = ""
        if is_const:
            emit.read_only.add(var)
            const = "const "
        name = emit.names[var] = self.out.fresh(var.name)
        kind = "void" if element is None else emit.dialect.memory_type(element)
        self.out.write(f"{const}{space}{kind}* {name} = ({const}{space}{kind}*){value};")

    def visit_AttrStmt(self, stmt: tir.AttrStmt) -> None:
        if stmt.attr_key in _FORBIDDEN:
            raise self.out.unsupported(f"'{stmt.attr_key}' has no meaning in a kernel")
        if stmt.attr_key == "async_commit_queue_scope":
            self.visit(stmt.body)
            self._call(end_group(self.emit))
            return
        if stmt.attr_key == "async_wait_queue_scope":
            call, body = begin_wait(self.emit, stmt)
            self._call(call)
            self.visit(body)
            return
        if stmt.attr_key == "thread_extent":
            self._thread(stmt)
        self.note_attribute(stmt)
        self.visit(stmt.body)

    def _call(self, call: str) -> None:
        if call:
            self.out.write(call + ";")

    def _thread(self, stmt: tir.AttrStmt) -> None:
        assert isinstance(stmt.node, IterVar)
        emit, var, tag = self.emit, stmt.node.var, stmt.node.thread_tag
        if tag not in emit.dialect.threads:
            raise self.out.unsupported(
                f"threads of the kind '{tag}' do not exist on this device",
                f"bind loops to one of {', '.join(emit.dialect.threads)}",
            )
        emit.facts.non_negative.add(var)
        if constant_value(stmt.value) == 1:
            emit.names[var] = "0"
            return
        if tag not in self.threads:
            name = self.threads[tag] = self.out.top_name(tag.replace(".", "_"))
            self.out.top.append(
                f"  const {emit.type(var.dtype)} {name} = {emit.dialect.threads[tag]};"
            )
        emit.names[var] = self.threads[tag]

    def visit_AssertStmt(self, stmt: tir.AssertStmt) -> None:
        raise self.out.unsupported(
            "it contains an assertion, which code of a GPU cannot report",
            "drop assertions with the option tir.disable_assert, or assert outside of the kernel",
        )

    def visit_For(self, loop: tir.For) -> None:
        if loop.kind in (tir.ForKind.VECTORIZED, tir.ForKind.THREAD_BINDING, tir.ForKind.PARALLEL):
            raise self.out.unsupported(
                f"loop '{loop.loop_var.name}' is of kind {loop.kind.name} inside a kernel",
                "bind it to threads (sch.bind), or leave it serial",
            )
        for key, value in loop.annotations.items():
            self.import_source(key, value)
        emit = self.emit
        emit.begin_statement(loop.min, loop.extent)
        kind = emit.type(loop.loop_var.dtype)
        start = emit.text(loop.min)
        stop = self.loop_end(loop, kind)
        if emit.facts.is_non_negative(loop.min):
            emit.facts.non_negative.add(loop.loop_var)
        if loop.kind is tir.ForKind.UNROLLED or indexes_registers(loop):
            self.out.write("#pragma unroll")
        with self.out.names_inside():
            name = emit.names[loop.loop_var] = self.out.fresh(loop.loop_var.name)
            self.loop(loop, kind, name, start, stop)
        if emit.dialect.name == "opencl" and any_node(loop.body, _is_barrier_of_block):
            # PoCL 3.0 drops stores under a condition that stand directly behind such a loop.
            self.out.write(emit.dialect.barriers["shared"] + ";")

    # -- memory

    def visit_Allocate(self, stmt: tir.Allocate) -> None:
        emit, var, element = self.emit, stmt.buffer_var, stmt.dtype.element
        scope = var.storage_scope
        if is_fragment(var):
            declare_fragments(emit, stmt)
            self.visit(stmt.body)
            return
        kind = emit.dialect.memory_type(element)
        is_shared = scope.partition(".")[0] == "shared"
        name = self.out.top_name(var.name) if is_shared else self.out.fresh(var.name)
        emit.file.use(element)
        emit.names[var], emit.pointer_types[var] = name, element
        emit.spaces[var] = emit.dialect.space(scope or "local")
        if scope == "shared.dyn":
            pointer = f"{emit.spaces[var]}{kind}*"
            self.out.top.append(f"  {pointer} const {name} = ({pointer})dynamic_shared;")
            self.visit(stmt.body)
            return
        size = constant_bytes(stmt)
        if size is None:
            raise self.out.unsupported(
                f"'{var.name}' in scope '{scope}' has a size that is not constant",
                "use the scope shared.dyn" if scope.startswith("shared") else
                "threads have memory of constant size: bound it, or use global memory",
            )  # fmt: skip
        count = max(1, size // element.nbytes)
        if element.bits < 8 and not element.is_bool:
            count = max(1, -(-size // 1))
        if is_shared:
            most = max(16, emit.alignments.get(var, 0))
            line = emit.dialect.shared.format(type=kind, name=name, count=count, bytes=most)
            self.out.top.append("  " + line)
        else:
            if scope.partition(".")[0] in ("global",):
                raise self.out.unsupported(
                    f"'{var.name}' is allocated in global memory inside a kernel",
                    "allocate it outside, or in the scope local or shared",
                )
            emit.spaces[var] = ""
            align = ""
            if emit.dialect.name == "cuda" and element.bits < 32 and size >= 4:
                # vectors and instructions of tensor cores take several elements at once
                whole = next(width for width in (16, 8, 4) if width <= size)
                align = f"__align__({whole}) "
            self.out.write(f"{align}{kind} {name}[{count}];")
        is_of_product = var in emit.product_registers
        if is_of_product:
            emit.product_registers[var] = size
        self.visit(stmt.body)
        if is_of_product:
            emit.product_registers[var] = 0

    def visit_AllocateConst(self, stmt: tir.AllocateConst) -> None:
        self.emit.spaces[stmt.buffer_var] = self.emit.dialect.space("constant")
        self.emit.read_only.add(stmt.buffer_var)
        super().visit_AllocateConst(stmt)


def _is_barrier_of_block(node: Node) -> bool:
    if not isinstance(node, Call) or not is_call(node, "tir.tvm_storage_sync"):
        return False
    return isinstance(node.args[0], StringImm) and node.args[0].value.startswith("shared")
