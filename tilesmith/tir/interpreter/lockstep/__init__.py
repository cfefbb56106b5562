"""Runs kernels with all threads of a block in lockstep, and shows every access to observers.

    found = run_kernels(func, [a, b, c], LockstepOptions(), observers)

Values are arrays with one entry for each active thread, so that a block of hundreds of threads
takes as many steps as one thread. Where threads wait at barriers in shared memory for what others
do, those go on first (``strands``). What the interpreter's groups of threads check one by one
(``watch``) is checked here for all threads at once: races within a block, a warp and across
blocks, undefined reads, accesses outside of buffers, barriers that not all threads reach, copies
that were not waited for, shuffles of lanes that do not take part. Of a large grid only some blocks
are run, and long loops are cut (``kernels``).

A program without races computes what the interpreter computes. What has no rule here raises
UnsupportedError: barriers of the grid, virtual threads, pointers in variables, calls of functions.

    statements   statements; kernels: blocks and cut loops; operations: arithmetic
    matrices     rules of matrix units; warpgroups: those of four warps
    expressions  expressions
    rules        rules of calls; copies: asynchronous copies; barriers: those in shared memory
    accesses     loads and stores; masks: those of vectors under a predicate
    state        the run; observers: its events; memory: memory and its shadow
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tilesmith.ir import Var
from tilesmith.ir.queries import walk
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter.calls import Return
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep import barriers, matrices, tensor_copies, warpgroups
from tilesmith.tir.interpreter.lockstep.expressions import LockstepExpressions
from tilesmith.tir.interpreter.lockstep.memory import Memory
from tilesmith.tir.interpreter.lockstep.observers import BlockAccess, Launch, Observer, Site
from tilesmith.tir.interpreter.lockstep.state import Finding, Group, LockstepOptions, State
from tilesmith.tir.interpreter.lockstep.statements import LockstepStatements
from tilesmith.tir.interpreter.parameters import bind_parameter
from tilesmith.tir.interpreter.values import Environment, Pointer
from tilesmith.tir.stmt import BufferStore

__all__ = [
    "BlockAccess", "Finding", "Launch", "LockstepOptions", "LockstepResult", "Observer", "Site",
    "run_kernels",
]  # fmt: skip


@dataclass(frozen=True)
class LockstepResult:
    """What a run found, the kernels that it ran, and what it left out."""

    findings: tuple[Finding, ...]
    launches: tuple[Launch, ...]
    cut: tuple[str, ...]


def _granules(func: PrimFunc) -> dict[Var, int]:
    """Return the bytes of the smallest element by which each memory is accessed."""
    found: dict[Var, int] = {}
    for node in walk(func.body):
        if isinstance(node, (BufferStore, BufferLoad)):
            buffer: Buffer = node.buffer
            size = max(buffer.dtype.element.nbytes, 1)
            found[buffer.data] = min(found.get(buffer.data, size), size)
    return found


def run_kernels(
    func: PrimFunc,
    arguments: Sequence[Any],
    options: LockstepOptions | None = None,
    observers: Sequence[Observer] = (),
    name: str | None = None,
) -> LockstepResult:
    """Run the kernels of a function on arrays, which change in place, and return what is found.

    Raises UnsupportedError for programs that lockstep has no rules for; with
    ``options.raise_first`` ExecutionError or OutOfBoundsError for the first finding.
    """
    options = options or LockstepOptions()
    name = name or str(func.attrs.get("global_symbol", "main"))
    with deep_recursion(), numpy.errstate(all="ignore"):
        uniform = ExpressionCompiler()
        expressions = LockstepExpressions(uniform)
        granules = _granules(func)
        statements = LockstepStatements(expressions, options, name, granules)
        binders = [
            bind_parameter(uniform, param, func.buffer_map.get(param), name)
            for param in func.params
        ]
        body = statements.visit(func.body)
        env: Environment = [None] * uniform.frame.size
        state = State(options, observers, sites=expressions.sites)
        state.clock.warp_size = options.warp_size
        copied: list[Any] = []
        checks: list[Any] = []
        for bind, argument in zip(binders, arguments, strict=True):
            bind(env, argument, copied, checks)
        for check in checks:
            check()
        for param in func.params:
            _place(env, uniform, param, func.buffer_map.get(param), granules)
        env[CONTEXT_SLOT] = state
        env[THREAD_SLOT] = Group(numpy.zeros(1, numpy.int64), True, options.warp_size)
        try:
            body(env)
        except Return:
            pass  # what the function returns is no matter here
        for original, copy in copied:
            original[...] = copy
    return LockstepResult(
        tuple(state.findings.values()), tuple(state.launches), tuple(state.cut_kernels)
    )


def _place(
    env: Environment, uniform: ExpressionCompiler, param: Var, buffer: Buffer | None,
    granules: dict[Var, int],
) -> None:  # fmt: skip
    """Turn the memory of an argument into memory of the device."""
    data = param if buffer is None else buffer.data
    slot = uniform.frame.slot(data)
    pointer = env[slot]
    if not isinstance(pointer, Pointer):
        return
    raw = pointer.memory[pointer.offset :] if pointer.offset >= 0 else pointer.memory
    dtype = None if buffer is None else buffer.dtype
    if dtype is None:
        from tilesmith.tir.interpreter.memory_calls import pointed_dtype

        dtype = pointed_dtype(param)
    if dtype is None:
        return
    env[slot] = Memory(
        param.name if buffer is None else buffer.name, "global", dtype, raw,
        granules.get(data, max(dtype.element.nbytes, 1)), True,
    )  # fmt: skip
