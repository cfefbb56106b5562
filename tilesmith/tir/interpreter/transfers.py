"""Transfers of a DMA engine, atomic additions, lists of values, numbers that the target decides."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, StringImm
from tilesmith.support.errors import ExecutionError
from tilesmith.tir.interpreter.async_copies import Copies, _bytes
from tilesmith.tir.interpreter.calls import CallCompiler
from tilesmith.tir.interpreter.threads import THREAD_SLOT
from tilesmith.tir.interpreter.values import Environment, Evaluate, scalar, wrap_int


class TransferCompiler(CallCompiler):
    """Closures for what moves or updates memory as a whole."""

    # The DMA engine: a queue of transfers, each a group unless it stands between the marks of one.

    def call_dma_copy(self, node: Call) -> Evaluate:
        queue, target, source, count = [self.visit(arg) for arg in node.args[:4]]

        def begin(env: Environment) -> int:
            data = _bytes(source(env), count(env)).copy()
            window = _bytes(target(env), count(env))
            window[...] = 0xFF  # no number, until the transfer has been waited for

            def finish() -> None:
                window[...] = data

            copies = _copies(env)
            copies.open.append(finish)
            if not copies.grouped:
                copies.commit(("dma", queue(env)))
            return 0

        return begin

    def call_dma_start_group(self, node: Call) -> Evaluate:
        def start(env: Environment) -> int:
            _copies(env).grouped = True
            return 0

        return start

    def call_dma_end_group(self, node: Call) -> Evaluate:
        queue = self.visit(node.args[0])

        def end(env: Environment) -> int:
            copies = _copies(env)
            copies.grouped = False
            copies.commit(("dma", queue(env)))
            return 0

        return end

    def call_dma_wait(self, node: Call) -> Evaluate:
        queue, pending = self.visit(node.args[0]), self.visit(node.args[1])

        def wait(env: Environment) -> int:
            _copies(env).wait(("dma", queue(env)), pending(env))
            return 0

        return wait

    def call_atomic_add(self, node: Call) -> Evaluate:
        """Adds to the element that a pointer names; gives what was there before."""
        pointer, value = [self.visit(arg) for arg in node.args]
        dtype = node.args[1].dtype

        def add(env: Environment) -> Any:
            place = pointer(env).view(dtype, (1,), None, 0)
            before = scalar(place[0].item() if dtype.is_integer else place[0], dtype)
            after = before + value(env)
            place[0] = wrap_int(after, dtype) if dtype.is_integer else after
            return before

        return add

    # Lists of values of the virtual machine.

    def call_anylist_getitem(self, node: Call) -> Evaluate:
        items, index = [self.visit(arg) for arg in node.args]
        return lambda env: items(env)[index(env)]

    def call_anylist_resetitem(self, node: Call) -> Evaluate:
        items, index = [self.visit(arg) for arg in node.args]

        def reset(env: Environment) -> int:
            items(env)[index(env)] = None
            return 0

        return reset

    def call_anylist_setitem_call_packed(self, node: Call) -> Evaluate:
        items, index = [self.visit(arg) for arg in node.args[:2]]
        name = node.args[2]
        if not isinstance(name, StringImm):
            raise ExecutionError("anylist_setitem_call_packed needs the name of a function")
        parts = [self.visit(arg) for arg in node.args[3:]]

        def call(env: Environment) -> int:
            result = env[0].call_packed(name.value, [part(env) for part in parts])
            items(env)[index(env)] = result
            return 0

        return call

    call_anylist_setitem_call_cpacked = call_anylist_setitem_call_packed

    # Numbers and errors.

    def call_vscale(self, node: Call) -> Evaluate:
        options: Any = self.options  # type: ignore[attr-defined]
        scale = int(options.vscale)
        return lambda env: scale

    def call_large_uint_imm(self, node: Call) -> Evaluate:
        low, high = [self.visit(arg) for arg in node.args]
        return lambda env: high(env) << 32 | (low(env) & 0xFFFFFFFF)

    def call_tvm_context_id(self, node: Call) -> Evaluate:
        return lambda env: 0

    def call_tvm_throw_last_error(self, node: Call) -> Evaluate:
        def leave(env: Environment) -> None:
            raise ExecutionError("the program leaves with the error that was set last")

        return leave


def _copies(env: Environment) -> Copies:
    """The transfers that a thread has begun; a function without threads has one set for all."""
    thread = env[THREAD_SLOT]
    if thread is None:
        return env[0].copies
    if thread.copies is None:
        thread.copies = Copies()
    return thread.copies
