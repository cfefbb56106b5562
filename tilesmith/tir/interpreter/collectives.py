"""What threads do together: barriers, exchanges within a warp, reductions over threads.

The methods ``together_NAME`` make closures over a group of threads, ``call_NAME`` closures over one
thread; those find the others in ``Context.active``, the threads that carry the statement out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Call, IntImm, PrimExpr, Var
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, CommReducer, IterVar
from tilesmith.tir.interpreter.calls import CallCompiler
from tilesmith.tir.interpreter.threads import THREAD_SLOT, Thread, barrier_name, whole
from tilesmith.tir.interpreter.values import Environment, Evaluate

RunGroup = Callable[[list[Environment]], None]


class CollectiveCompiler(CallCompiler):
    """Closures for barriers, exchanges and reductions of threads."""

    def __init__(self) -> None:
        super().__init__()
        self.reducers: list[Any] = []
        self.axis_of: dict[Any, str] = {}  # variables of launched threads

    def watcher(self, buffer: Buffer) -> Callable[..., None] | None:
        """What is told of each store; only the watched compiler wants to know."""
        return None

    # Barriers.

    def together_tvm_storage_sync(self, call: Call, span: Any) -> RunGroup:
        scope = str(call.args[0].value)  # type: ignore[attr-defined]
        warp_only = scope == "warp"
        name = barrier_name(scope)

        def wait(envs: list[Environment]) -> None:
            whole(envs, name, span, warp_only)
            watch = envs[0][0].watch
            if watch is not None:
                watch.barrier(envs, scope)

        return wait

    def together_tvm_global_barrier_kinit(self, call: Call, span: Any) -> RunGroup:
        return lambda envs: None

    # Exchanges within a warp.

    def call_tvm_warp_activemask(self, node: Call) -> Evaluate:
        def mask(env: Environment) -> int:
            return _active_mask(env)

        return mask

    def call_tvm_warp_shuffle(self, node: Call) -> Evaluate:
        return self.shuffle(node.args, _from_lane, "tvm_warp_shuffle")

    def call_tvm_warp_shuffle_up(self, node: Call) -> Evaluate:
        return self.shuffle(node.args, _from_below, "tvm_warp_shuffle_up")

    def call_tvm_warp_shuffle_down(self, node: Call) -> Evaluate:
        return self.shuffle(node.args, _from_above, "tvm_warp_shuffle_down")

    def shuffle(self, args: Any, source: Callable[[int, int, int], int], name: str) -> Evaluate:
        """The value in the lane that ``source(lane, given, width)`` tells."""
        mask, value, given, width = [self.visit(arg) for arg in args[:4]]

        def exchange(env: Environment) -> Any:
            thread: Thread = env[THREAD_SLOT]
            segment = width(env)
            lane = source(thread.lane % segment, given(env), segment)
            if not 0 <= lane < segment:
                return value(env)  # outside of the segment: a thread keeps its own
            wanted = thread.number - thread.lane % segment + lane
            if not mask(env) >> (wanted % thread.warp_size) & 1:
                raise ExecutionError(
                    f"{name}: thread {thread.describe()} reads lane {lane}, which is not in its "
                    "mask"
                )
            for other in env[0].active:
                found: Thread = other[THREAD_SLOT]
                if found.number == wanted and found.block == thread.block:
                    return value(other)
            raise ExecutionError(
                f"{name}: thread {thread.describe()} reads lane {lane}, which is not at work here"
            )

        return exchange

    def external(self, node: Call, find: Any) -> Evaluate:
        name = str(getattr(node.args[0], "value", ""))
        if not name.startswith(("__shfl", "__activemask")):
            return super().external(node, find)
        if name.startswith("__activemask"):
            return self.call_tvm_warp_activemask(node)
        kind = name.removeprefix("__shfl").removesuffix("_sync")
        sources = {"": _from_lane, "_up": _from_below, "_down": _from_above, "_xor": _from_xor}
        if kind not in sources:
            raise UnsupportedError(f"the interpreter does not know the function '{name}'")
        args = list(node.args[1:])
        if not name.endswith("_sync"):
            args.insert(0, IntImm("uint32", 0xFFFFFFFF))
        if len(args) == 3:
            args.append(IntImm("int32", 32))
        return self.shuffle(args, sources[kind], name)

    # Reductions over the threads of a block.

    def together_tvm_thread_allreduce(self, call: Call, span: Any) -> RunGroup:
        if not self.reducers or not isinstance(self.reducers[-1], CommReducer):
            raise UnsupportedError(
                "tvm_thread_allreduce needs an attribute 'reduce_scope' with a reducer around it",
                span=span,
            )
        reducer: CommReducer = self.reducers[-1]
        count = call.args[0].value  # type: ignore[attr-defined]
        sources = [self.visit(arg) for arg in call.args[1 : 1 + count]]
        condition = self.visit(call.args[1 + count])
        results = [self.result_store(arg) for arg in call.args[2 + count : 2 + 2 * count]]
        reduced = {self.axis_of.get(_variable(arg), "") for arg in call.args[2 + 2 * count :]}
        left = [self.slot(var) for var in reducer.lhs]
        right = [self.slot(var) for var in reducer.rhs]
        combine = [self.visit(value) for value in reducer.result]
        neutral = [self.visit(value) for value in reducer.identity_element]

        def reduce_party(party: list[Environment]) -> None:
            first = party[0]
            total: list[Any] | None = None
            for env in party:
                given = sources if condition(env) else neutral
                values = [value(env) for value in given]
                if total is None:
                    total = values
                    continue
                for slot, value in zip([*left, *right], [*total, *values]):
                    first[slot] = value
                total = [part(first) for part in combine]
            for env in party:
                for store, value in zip(results, total or ()):
                    store(env, value)

        def run(envs: list[Environment]) -> None:
            whole(envs, "a reduction over threads (tvm_thread_allreduce)", span)
            for party in _parties(envs, reduced):
                reduce_party(party)

        return run

    def result_store(self, target: PrimExpr) -> Callable[[Environment, Any], None]:
        """Puts a result into an element of a buffer, or to where a pointer points."""
        if isinstance(target, BufferLoad):
            slot, bind = self.slot(target.buffer), self.binder(target.buffer)
            indices = [self.visit(index) for index in target.indices]
            watched = self.watcher(target.buffer)

            def store(env: Environment, value: Any) -> None:
                array = env[slot]
                if array is None:
                    array = bind(env)
                place = tuple([index(env) for index in indices])
                array[place] = value
                if watched is not None:
                    watched(env, array, place, value)

            return store
        if isinstance(target, Var):
            slot = self.slot(target)
            annotation = getattr(target.type_annotation, "element_type", None)
            dtype = annotation.dtype if annotation is not None else None
            if dtype is not None:

                def store_first(env: Environment, value: Any) -> None:
                    env[slot].view(dtype, (1,), None, 0)[0] = value

                return store_first
        raise UnsupportedError("tvm_thread_allreduce: a result goes to an element of a buffer")


def _variable(arg: Any) -> Var:
    return arg.var if isinstance(arg, IterVar) else arg


def _parties(envs: list[Environment], reduced: set[str]) -> list[list[Environment]]:
    """Threads of a block that differ only in the axes of the reduction."""
    parties: dict[Any, list[Environment]] = {}
    for env in envs:
        axes = env[THREAD_SLOT].axes
        key = tuple([(tag, place[0]) for tag, place in axes.items() if tag not in reduced])
        parties.setdefault(key, []).append(env)
    return list(parties.values())


def _active_mask(env: Environment) -> int:
    thread: Thread = env[THREAD_SLOT]
    mask = 0
    for other in env[0].active:
        found: Thread = other[THREAD_SLOT]
        if found.block == thread.block and found.warp == thread.warp:
            mask |= 1 << found.lane
    return mask


def _from_lane(lane: int, given: int, width: int) -> int:
    return given % width


def _from_below(lane: int, given: int, width: int) -> int:
    return lane - given


def _from_above(lane: int, given: int, width: int) -> int:
    return lane + given


def _from_xor(lane: int, given: int, width: int) -> int:
    return lane ^ given
