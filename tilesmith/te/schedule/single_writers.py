"""Updates of memory that several threads see: one of them writes.

s[D].compute_at(s[C], block)       launch blockIdx.x, threadIdx.x:
(a sum, in shared memory;              if threadIdx.x == 0: D[0] = 0
its loops are bound to no              for k:
thread)                                    if threadIdx.x == 0: D[0] = D[0] + A[…]
                                       C[…] = D[0] * …

All threads of a block run the loops of a stage that is bound to none of them. Where it only stores,
all store the same values. But an update in place (a reduction) reads what others have written: each
value would count several times, or get lost. So of the threads along an axis that the stage does
not use itself the first one writes; `ThreadSync` puts the barriers before the readers.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr, Rewriter, StringImm, Var
from tilesmith.ir.operators import all_of
from tilesmith.ir.queries import any_node, nodes
from tilesmith.te.schedule.message_passing import thread_of
from tilesmith.te.schedule.placement import memory_rank
from tilesmith.te.schedule.stage import Stage
from tilesmith.tir.expr import IterVar
from tilesmith.tir.stmt import AttrStmt, IfThenElse, ProducerRealize, Stmt

__all__ = ["UPDATE_SCOPE", "guard_updates", "updating", "updating_alone"]

UPDATE_SCOPE = "update_scope"


def updating(stage: Stage, body: Stmt) -> Stmt:
    """Return the stores of a stage's results, marked as (part of) an update in place by the threads
    that the stage is bound to.
    """
    threads = [thread_of(stage, axis) for axis in stage.leaf_iter_vars]
    tags = [thread.thread_tag for thread in threads if thread is not None]
    return AttrStmt(stage.op.output(0), UPDATE_SCOPE, StringImm(",".join(tags)), body)


def updating_alone(stage: Stage, body: Stmt) -> Stmt:
    """Return the whole statement of a stage that may update its results anywhere, marked as an
    update; one that uses threads itself says which of them write.
    """
    if any_node(body, lambda node: _has_key(node, "thread_extent")):
        return body
    return updating(stage, body)


def guard_updates(stmt: Stmt) -> Stmt:
    """Return the statement of a schedule in which one thread writes where an update is marked."""
    if not any_node(stmt, lambda node: _has_key(node, UPDATE_SCOPE)):
        return stmt
    return _Guard().visit(stmt)


def _has_key(node: Any, key: str) -> bool:
    return isinstance(node, AttrStmt) and node.attr_key == key


def _launches(kernel: AttrStmt) -> list[AttrStmt]:
    """Return the launches of threads of a block in a kernel."""
    return [
        attribute
        for attribute in nodes(kernel, AttrStmt)
        if attribute.attr_key == "thread_extent" and _tag(attribute).startswith("threadIdx")
    ]


def _tag(launch: AttrStmt) -> str:
    thread: Any = launch.node
    return str(thread.thread_tag)


class _Guard(Rewriter):
    def __init__(self) -> None:
        self.launches: list[AttrStmt] | None = None  # of the kernel that is visited
        self.running: dict[str, Var] = {}
        self.lacking: dict[str, AttrStmt] = {}  # threads that an update needs before they start
        self.private: list[Any] = []  # tensors whose memory each thread of the kernel has

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key == UPDATE_SCOPE:
            return self.update(attribute)
        if attribute.attr_key != "thread_extent":
            return self.children(attribute)
        thread: Any = attribute.node
        if self.launches is None:
            return self.kernel(attribute)
        return self.running_with(thread, lambda: self.children(attribute))

    def running_with(self, thread: IterVar, visit: Any) -> Stmt:
        outer = self.running
        self.running = {thread.thread_tag: thread.var, **outer}
        new: Stmt = visit()
        self.running = outer
        return new

    def kernel(self, attribute: AttrStmt) -> Stmt:
        """Return a kernel; threads whose index an update needs run from its beginning on."""
        self.launches, self.lacking = _launches(attribute), {}
        thread: Any = attribute.node
        new: Any = self.running_with(thread, lambda: self.children(attribute))
        body = new.body
        for launch in reversed(self.lacking.values()):
            body = launch.with_fields(body=body)
        self.launches = None
        guarded: Stmt = new if body is new.body else new.with_fields(body=body)
        return guarded

    def update(self, attribute: AttrStmt) -> Stmt:
        body = self.visit(attribute.body)
        if self.launches is None or any(attribute.node is one for one in self.private):
            return body
        value: Any = attribute.value
        done = {*value.value.split(","), *self.chosen(body)}
        conditions: list[PrimExpr] = []
        for launch in self.launches:
            tag, thread = _tag(launch), launch.node
            if tag in done:
                continue
            done.add(tag)
            if tag not in self.running:
                self.lacking[tag] = launch
            conditions.append(self.running.get(tag, thread.var).equal(0))
        return IfThenElse(all_of(*conditions), body) if conditions else body

    def chosen(self, body: Stmt) -> list[str]:
        """Return the axes of threads along which a condition around stores (the user's store
        predicate) chooses already.
        """
        if not isinstance(body, IfThenElse) or self.launches is None:
            return []
        used = set(nodes(body.condition, Var))
        return [_tag(one) for one in self.launches if one.node.var in used]

    def visit_ProducerRealize(self, realize: ProducerRealize) -> Stmt:
        is_private = self.launches is not None and memory_rank(realize.storage_scope) != 1
        if is_private:
            self.private.append(realize.producer)
        new: Stmt = self.children(realize)
        if is_private:
            self.private.pop()
        return new
