"""Compiles accesses of buffers for all active threads at once, and places behind pointers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from tilesmith.ir import Call, IntImm, PrimExpr, Var
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.masks import masked_load
from tilesmith.tir.interpreter.lockstep.memory import Memory
from tilesmith.tir.interpreter.lockstep.observers import Site
from tilesmith.tir.interpreter.lockstep.state import Group, State, granules
from tilesmith.tir.interpreter.values import Environment, Evaluate, element_type

if TYPE_CHECKING:
    from tilesmith.tir.interpreter.lockstep.expressions import LockstepExpressions

__all__ = [
    "BufferAccesses", "Place", "Target", "checked_read", "fetch", "flags_of", "pointed", "put",
    "put_seen", "where_of",
]  # fmt: skip


class Place(NamedTuple):
    """What a pointer means: memory, and the byte in it (a number, or one for each thread)."""

    memory: Memory
    offset: Any


class Target(NamedTuple):
    """Elements of memory: for each thread (and lane), and which threads are inside of the buffer
    (None: all)."""

    memory: Memory
    position: Any
    inside: Any


def fetch(memory: Memory, kind: numpy.dtype, position: Any, group: Group) -> Any:
    """Return elements: one for each thread, or for each thread and lane."""
    flat = memory.elements(kind)
    if memory.space == "local":
        if not isinstance(position, numpy.ndarray):
            return flat[position] if group.is_whole else flat[position][group.ids]
        return flat[position, group.ids if position.ndim == 1 else group.ids[:, None]]
    if memory.space == "warp":
        owners = group.warps_of if numpy.ndim(position) < 2 else group.warps_of[:, None]
        return flat[owners, position]
    found = flat[position]
    if not isinstance(found, numpy.ndarray):
        return numpy.full(group.count, found, kind)
    return found


def put(memory: Memory, kind: numpy.dtype, position: Any, group: Group, value: Any) -> None:
    """Store elements of all threads; of threads that write one element, the last one stays."""
    flat = memory.elements(kind)
    if memory.space == "local":
        if not isinstance(position, numpy.ndarray):
            if group.is_whole:
                flat[position] = value
            else:
                flat[position, group.ids] = value
        else:
            flat[position, group.ids if position.ndim == 1 else group.ids[:, None]] = value
    elif memory.space == "warp":
        owners = group.warps_of if numpy.ndim(position) < 2 else group.warps_of[:, None]
        flat[owners, position] = value
    elif isinstance(position, numpy.ndarray):
        flat[position] = value
    else:
        flat[position] = value if not isinstance(value, numpy.ndarray) else value.reshape(-1)[-1]


def put_seen(
    memory: Memory, kind: numpy.dtype, position: Any, group: Group, value: Any
) -> tuple[Any, Any]:
    """Store elements in memory that several threads see; return which of them were there already,
    and which are there afterwards: two writes of one value do no harm."""
    before = fetch(memory, kind, position, group)
    put(memory, kind, position, group, value)
    return _equal(before, value), _equal(fetch(memory, kind, position, group), value)


def where_of(memory: Memory, position: Any, size: int, group: Group) -> Any:
    """Return the index of the flags of elements."""
    if memory.space == "local":
        if not isinstance(position, numpy.ndarray):
            return position if group.is_whole else (position, group.ids)
        return position, group.ids if position.ndim == 1 else group.ids[:, None]
    if memory.space == "warp":
        return (group.warps_of if numpy.ndim(position) < 2 else group.warps_of[:, None]), position
    return granules(position, size, memory.granule)


def defined_at(memory: Memory, position: Any, size: int, group: Group) -> Any:
    """Return which elements hold a value, or will when a copy in flight arrives (whoever reads them
    before that misses a wait, see ``check_arrived``); None: all."""
    if memory.is_defined or memory.defined is None:
        return None
    where = where_of(memory, position, size, group)
    flags = memory.defined[where]
    if flags.all():
        return None
    if memory.pending is not None:
        flags = flags | memory.pending[where]
        if flags.all():
            return None
    if memory.space in ("shared", "global") and size > memory.granule:
        flags = flags.reshape((*numpy.shape(position), -1)).all(-1)
    return flags


class BufferAccesses:
    """Makes the closures of loads and stores."""

    def __init__(self, compiler: LockstepExpressions) -> None:
        self.compiler = compiler
        self.granule_of: dict[Var, int] = {}

    def space(self, pointer: Var) -> str:
        """Return the space of memory behind a pointer."""
        from tilesmith.tir.interpreter.lockstep.memory import space_of
        from tilesmith.tir.interpreter.threads import sharing_level

        return space_of(sharing_level(pointer.storage_scope))

    # Places.

    def target(
        self, buffer: Buffer, indices: Sequence[PrimExpr]
    ) -> Callable[[Environment, Site], Target]:
        """Return the closure of the elements that an access means."""
        compiler = self.compiler
        values = [compiler.visit(index) for index in indices]
        varies = [compiler.differs(index) for index in indices]
        lanes = [index.dtype.lanes for index in indices]
        is_wide = max(lanes, default=1) > 1
        sizes = [compiler.number(size) for size in buffer.shape]
        strides = [compiler.number(stride) for stride in buffer.strides]
        offset = compiler.number(buffer.elem_offset)
        constant = _constant_strides(buffer)
        slot = compiler.frame.slot(buffer.data)
        inner = buffer.dtype.lanes

        def find(env: Environment, site: Site) -> Target:
            shape = [size(env) for size in sizes]
            steps = constant or ([step(env) for step in strides] if strides else _row_major(shape))
            memory = env[slot]
            if memory is None:
                raise UnsupportedError(f"'{buffer.name}' is used before its memory exists")
            position: Any = offset(env)
            inside: Any = None
            for value, differs, count, size, step in zip(values, varies, lanes, shape, steps):
                index = value(env)
                if isinstance(index, numpy.ndarray):
                    if not index.size:
                        continue
                    if index.min() < 0 or index.max() >= size:
                        inside = _outside(env, site, buffer, index, size, shape, inside)
                        index = index.clip(0, max(size - 1, 0))
                    if is_wide and differs and count == 1:
                        index = index[:, None]
                elif not 0 <= index < size:
                    inside = _outside(env, site, buffer, index, size, shape, inside)
                    index = min(max(index, 0), max(size - 1, 0))
                position = position + index * step
            if inner > 1:
                position = numpy.asarray(position)[..., None] * inner + numpy.arange(inner)
            elif is_wide and position.ndim == 1:  # lanes that all threads share
                position = numpy.broadcast_to(position, (env[THREAD_SLOT].count, len(position)))
            limit = memory.nbytes // (site_size or 1)
            high = int(position.max()) if isinstance(position, numpy.ndarray) else position
            if high >= limit:
                inside = _outside(env, site, buffer, high, limit, shape, inside)
                position = numpy.minimum(position, limit - 1)
            return Target(memory, position, inside)

        site_size = element_type(buffer.dtype).itemsize
        return find

    def pointer(self, arg: PrimExpr) -> Callable[[Environment], Place]:
        """Return the closure of the place that a pointer means."""
        compiler = self.compiler
        if is_call(arg, "tir.tvm_access_ptr"):
            annotation, data, offset = arg.args[:3]
            size, base, start = annotation.dtype.nbytes, self.pointer(data), compiler.visit(offset)

            def access(env: Environment) -> Place:
                place = base(env)
                return Place(place.memory, place.offset + start(env) * size)

            return access
        if is_call(arg, "tir.address_of") and isinstance(arg.args[0], BufferLoad):
            load = arg.args[0]
            find = self.target(load.buffer, _first_lanes(load.indices))
            nbytes = element_type(load.buffer.dtype).itemsize
            site = compiler.site(
                "address", load.buffer.name, self.space(load.buffer.data), load.span
            )

            def address(env: Environment) -> Place:
                found = find(env, site)
                return Place(found.memory, found.position * nbytes)

            return address
        if isinstance(arg, Var):
            slot = compiler.frame.slot(arg)
            return lambda env: Place(env[slot], 0)
        raise UnsupportedError(f"threads in lockstep do not follow the pointer {arg}")

    # Loads.

    def load(
        self, node: BufferLoad, is_copy: bool = False, site: Site | None = None
    ) -> Evaluate:  # fmt: skip
        """Return the closure of a load. ``is_copy``: the value is only stored elsewhere, which
        makes what was never written no error; ``State.last_defined`` tells the store. ``site``: the
        place that it is part of."""
        buffer = node.buffer
        if node.predicate is not None:
            return masked_load(self, node)
        space, kind = self.space(buffer.data), element_type(buffer.dtype)
        find, size = self.target(buffer, node.indices), kind.itemsize
        site = site or self.compiler.site("read", buffer.name, space, node.span)
        is_seen = space in ("shared", "global")

        def load(env: Environment) -> Any:
            group: Group = env[THREAD_SLOT]
            memory, position, inside = find(env, site)
            if is_seen:
                state: State = env[CONTEXT_SLOT]
                if inside is None:
                    state.accessed(site, memory, group, position, size, False)
            if memory.pending is not None and inside is None:
                check_arrived(env[CONTEXT_SLOT], site, memory, position, size, group)
            if not memory.is_defined and memory.defined is not None:
                flags = defined_at(memory, position, size, group)
                if flags is not None:
                    note_undefined(env, site, memory, position, flags, group, is_copy)
            return fetch(memory, kind, position, group)

        return load

    # Stores.

    def store(
        self, buffer: Buffer, indices: Sequence[PrimExpr], span: Any, site: Site | None = None
    ) -> Callable[..., None]:
        """Return ``store(env, value, defined)``; ``site``: the place that it is part of."""
        space, kind = self.space(buffer.data), element_type(buffer.dtype)
        find, size = self.target(buffer, indices), kind.itemsize
        site = site or self.compiler.site("write", buffer.name, space, span)
        is_seen = space in ("shared", "global")

        def store(env: Environment, value: Any, defined: Any) -> None:
            group: Group = env[THREAD_SLOT]
            memory, position, inside = find(env, site)
            if inside is not None:
                chosen = numpy.flatnonzero(inside)
                if not len(chosen):
                    return
                position, group = _chosen(position, chosen, group.count), group.part(chosen)
                value = _chosen(value, chosen, env[THREAD_SLOT].count)
                defined = None
            if is_seen:
                same = put_seen(memory, kind, position, group, value)
                env[CONTEXT_SLOT].accessed(site, memory, group, position, size, True, same)
            else:
                put(memory, kind, position, group, value)
            if defined is not None and memory.defined is None:
                _note_result(env, site, memory, position, defined, group)
            elif defined is not None:
                memory.written(
                    where_of(memory, position, size, group),
                    flags_of(defined, position, size, memory),
                )
            elif not memory.is_defined:
                memory.written(where_of(memory, position, size, group))

        return store

    def deferred(
        self, buffer: Buffer, indices: Sequence[PrimExpr], span: Any, site: Site | None = None
    ) -> Callable[..., None]:
        """Return ``begin(env, value, defined)`` for a store that arrives when the program waits for
        it."""
        space, kind = self.space(buffer.data), element_type(buffer.dtype)
        find = self.target(buffer, indices)
        site = site or self.compiler.site("write", buffer.name, space, span)

        def begin(env: Environment, value: Any, defined: Any) -> None:
            group: Group = env[THREAD_SLOT]
            memory, position, _ = find(env, site)
            position = numpy.broadcast_to(position, numpy.shape(position) or (group.count,))
            value = numpy.broadcast_to(value, position.shape)
            if defined is not None and memory.defined is None:
                _note_result(env, site, memory, position, defined, group)
                defined = None
            elif defined is not None:
                defined = numpy.broadcast_to(defined, position.shape)
            env[CONTEXT_SLOT].copies.begin(
                env, site, memory, group.ids, position, value.copy(), kind, defined
            )

        return begin


def check_arrived(
    state: State, site: Site, memory: Memory, position: Any, size: int, group: Group
) -> None:
    """Find reads of elements that an asynchronous copy has not been waited for."""
    assert memory.pending is not None
    flags = memory.pending[where_of(memory, position, size, group)]
    if flags.any():
        first = int(numpy.argmax(flags.reshape(-1))) * group.count // flags.size
        thread = int(group.ids[min(first, group.count - 1)])
        state.find(
            "missing wait",
            f"thread {state.thread_text(thread)} reads {memory.name} ({memory.space}), which an "
            "asynchronous copy writes that has not been waited for",
            site,
        )


def checked_read(
    env: Environment, site: Any, memory: Memory, group: Group, position: Any, size: int,
    is_async: bool = False, actors: Any = None,
) -> None:  # fmt: skip
    """Check and count a read of elements by thread (``is_async``: by a copy in the background;
    ``actors`` tells those where barriers in shared memory order them)."""
    state: State = env[CONTEXT_SLOT]
    if memory.space in ("shared", "global"):
        state.accessed(
            site, memory, group, position, size, False, is_async=is_async, actors=actors
        )  # fmt: skip
    if memory.pending is not None:
        check_arrived(state, site, memory, position, size, group)
    flags = defined_at(memory, position, size, group)
    if flags is not None:
        note_undefined(env, site, memory, position, flags, group, False)


def note_undefined(
    env: Environment, site: Site, memory: Memory, position: Any, flags: Any, group: Group,
    is_copy: bool,
) -> None:  # fmt: skip
    """Record a read of what was never written, or hand it to the store that copies it."""
    state: State = env[CONTEXT_SLOT]
    if state.is_cut or state.launch is None or (memory.space == "global" and state.is_partial):
        return
    if is_copy:
        state.last_defined = flags
        return
    if state.masked is group and numpy.ndim(flags) == 2:  # the mask may take these lanes out
        known = state.last_defined
        state.last_defined = flags if known is None else flags & known
        return
    flat = numpy.broadcast_to(flags, numpy.shape(flags) or (1,)).reshape(-1)
    first = int(numpy.argmin(flat))
    thread = int(group.ids[first * group.count // flat.size])
    positions = numpy.broadcast_to(
        position, flags.shape if numpy.size(position) != flags.size else numpy.shape(position)
    ).reshape(-1)
    element = int(positions[first * positions.size // flat.size])
    state.find(
        "undefined read",
        f"thread {state.thread_text(thread)} reads {memory.name}[{element}] ({memory.space}), "
        "which was never written",
        site,
    )


def _note_result(
    env: Environment, site: Site, memory: Memory, position: Any, defined: Any, group: Group
) -> None:
    """Record a copy of what was never written to an argument, which the caller reads."""
    flat = numpy.broadcast_to(defined, numpy.shape(defined) or (1,)).reshape(-1)
    first = int(numpy.argmin(flat))
    thread = int(group.ids[first * group.count // flat.size])
    places = numpy.broadcast_to(position, flat.shape if numpy.ndim(position) < 2 else
                                numpy.shape(position)).reshape(-1)  # fmt: skip
    state: State = env[CONTEXT_SLOT]
    state.find(
        "undefined read",
        f"thread {state.thread_text(thread)} copies what was never written to "
        f"{memory.name}[{int(places[first * places.size // flat.size])}] ({memory.space})",
        site,
    )


def flags_of(defined: Any, position: Any, size: int, memory: Memory) -> Any:
    """Return flags of elements as flags of the granules of the memory that they are stored in."""
    is_alike = numpy.shape(defined) == numpy.shape(position)
    if memory.space in ("local", "warp"):
        return defined if is_alike or numpy.ndim(position) == 0 else defined.all()
    if not is_alike:
        return bool(numpy.all(defined))
    wanted = granules(position, size, memory.granule).shape
    per = max(size // memory.granule, 1)
    return numpy.repeat(numpy.asarray(defined)[..., None], per, -1).reshape(wanted)


def _chosen(value: Any, chosen: Any, count: int) -> Any:
    if isinstance(value, numpy.ndarray) and value.ndim and value.shape[0] == count:
        return value[chosen]
    return value


def _equal(one: Any, other: Any) -> Any:
    found = (one == other) | ((one != one) & (other != other))
    return (
        numpy.broadcast_to(found, numpy.shape(one)) if numpy.ndim(one) else numpy.atleast_1d(found)
    )


def _outside(
    env: Environment, site: Site, buffer: Buffer, index: Any, size: int, shape: Any, inside: Any
) -> Any:
    """Record an access outside of a buffer; return which threads are inside."""
    state: State = env[CONTEXT_SLOT]
    group: Group = env[THREAD_SLOT]
    wrong: Any = numpy.atleast_1d((numpy.asarray(index) < 0) | (numpy.asarray(index) >= size))
    if wrong.ndim > 1:
        shown = int(numpy.asarray(index)[wrong][0])
        wrong = wrong.any(axis=1)
    else:
        shown = int(numpy.atleast_1d(index)[int(numpy.argmax(wrong))])
    if len(wrong) != group.count:
        wrong = numpy.full(group.count, bool(wrong.any()))
    thread = int(group.ids[int(numpy.argmax(wrong))])
    verb = "writes" if site.kind == "write" else "reads"
    state.find(
        "out of bounds",
        f"thread {state.thread_text(thread)} {verb} {buffer.name} at index {shown} of a dimension "
        f"of {size} (shape {tuple(shape)})",
        site,
    )
    return ~wrong if inside is None else inside & ~wrong


def _row_major(shape: Sequence[int]) -> list[int]:
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return steps[::-1]


def _constant_strides(buffer: Buffer) -> list[int] | None:
    """Return the strides in elements where they are known before the run."""
    sizes = list(buffer.strides) or list(buffer.shape)
    if not all(isinstance(size, IntImm) for size in sizes):
        return None
    numbers = [int(size.value) for size in sizes]  # type: ignore[attr-defined]
    return numbers if buffer.strides else _row_major(numbers)


def _first_lanes(indices: Sequence[PrimExpr]) -> list[PrimExpr]:
    from tilesmith.ir import Ramp

    return [index.base if isinstance(index, Ramp) else index for index in indices]


def pointed(call: Call, number: int, fallback: DataType) -> int:
    """Return the bytes of the elements behind a pointer argument."""
    from tilesmith.tir.interpreter.memory_calls import pointed_bytes

    return pointed_bytes(call.args[number], fallback.element.nbytes)
