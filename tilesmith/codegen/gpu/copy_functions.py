"""Lists the copies in the background and the barriers of shared memory in the PTX ISA.

A barrier in shared memory (``mbarrier``) changes its phase when as many threads have arrived as it
waits for, and all bytes that were announced. Who waits for it names the phase by its parity.
"""

from __future__ import annotations

from tilesmith.codegen.gpu.device_functions import SHARED_ADDRESS, DeviceFunction, ptx_function

__all__ = [
    "ARRIVE", "ARRIVE_AFTER_COPIES", "ARRIVE_EXPECTING", "BULK_COPY", "COMMIT_GROUP",
    "INIT_BARRIER", "INIT_BARRIER_90", "WAIT_BARRIER", "WAIT_BARRIER_90", "copy_function",
    "tensor_copy_function", "wait_group_function",
]  # fmt: skip

_SHARED = (SHARED_ADDRESS,)
_BARRIER = '"r"(shared_address(barrier))'


def copy_function(count: int, guarded: bool) -> DeviceFunction:
    """Return ``cp.async`` of 4, 8 or 16 bytes; ``guarded``: with a condition, else zeros arrive.

    Copies of 16 bytes pass by the L1 cache, as shared memory is there to keep the data.
    """
    cache = "cg" if count == 16 else "ca"
    head = f"cp.async.{cache}.shared.global [%0], [%1], {count}"
    inputs = ['"r"(shared_address(target))', '"l"(__cvta_generic_to_global(source))']
    parameters = ["void* target", "const void* source"]
    if guarded:
        head += ", %2"
        parameters.append("bool condition")
        inputs.append(f'"r"(condition ? {count} : 0)')
    return ptx_function(
        f"copy_async_{count}{'_if' * guarded}", parameters, head + ";", (), inputs,
        architecture=80, memory=True, calls=_SHARED,
    )  # fmt: skip


COMMIT_GROUP = ptx_function(
    "commit_group", (), "cp.async.commit_group;", architecture=80, memory=True
)


def wait_group_function(pending: int) -> DeviceFunction:
    """Return the wait until at most so many groups of copies are pending."""
    return ptx_function(
        f"wait_group_{pending}", (), f"cp.async.wait_group {pending};",
        architecture=80, memory=True,
    )  # fmt: skip


BULK_COPY = ptx_function(
    "copy_bulk",
    ("void* target", "const void* source", "unsigned bytes", "void* barrier"),
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];",
    (),
    (
        '"r"(shared_address(target))',
        '"l"(__cvta_generic_to_global(source))',
        '"r"(bytes)',
        _BARRIER,
    ),
    architecture=90,
    memory=True,
    calls=_SHARED,
)


def tensor_copy_function(axes: int) -> DeviceFunction:
    """Return the copy of a box of a tensor that a tensor map describes; the box's place is given
    along the axis of neighbours first.
    """
    places = [f"x{axis}" for axis in range(axes)]
    names = ", ".join([f"%{2 + axis}" for axis in range(axes)])
    return ptx_function(
        f"copy_tensor_{axes}d",
        ["void* target", "const void* map", "void* barrier", *[f"int {one}" for one in places]],
        f"cp.async.bulk.tensor.{axes}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[%0], [%1, {{{names}}}], [%{2 + axes}];",
        (),
        ['"r"(shared_address(target))', '"l"(map)', *[f'"r"({one})' for one in places], _BARRIER],
        architecture=90,
        memory=True,
        calls=_SHARED,
    )


INIT_BARRIER = ptx_function(
    "init_barrier", ("void* barrier", "unsigned threads"),
    "mbarrier.init.shared::cta.b64 [%0], %1;", (), (_BARRIER, '"r"(threads)'),
    architecture=80, memory=True, calls=_SHARED,
)  # fmt: skip
INIT_BARRIER_90 = ptx_function(
    "init_barrier", ("void* barrier", "unsigned threads"),
    # The fence shows the barrier to bulk copies, which another unit of the GPU carries out.
    "mbarrier.init.shared::cta.b64 [%0], %1; fence.mbarrier_init.release.cluster;",
    (), (_BARRIER, '"r"(threads)'), architecture=90, memory=True, calls=_SHARED,
)  # fmt: skip
ARRIVE = ptx_function(
    "arrive_barrier", ("void* barrier",),
    "{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }", (), (_BARRIER,),
    architecture=80, memory=True, calls=_SHARED,
)  # fmt: skip
ARRIVE_EXPECTING = ptx_function(
    "arrive_barrier_expecting", ("void* barrier", "unsigned bytes"),
    "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }",
    (), (_BARRIER, '"r"(bytes)'), architecture=90, memory=True, calls=_SHARED,
)  # fmt: skip
ARRIVE_AFTER_COPIES = ptx_function(
    "arrive_barrier_after_copies", ("void* barrier",),
    # counted as pending when it is issued and as arrived when the copies end: the count that the
    # barrier was set up with stays that of the threads
    "cp.async.mbarrier.arrive.shared::cta.b64 [%0];", (), (_BARRIER,),
    architecture=80, memory=True, calls=_SHARED,
)  # fmt: skip


def _waiting(instruction: str, architecture: int) -> DeviceFunction:
    text = f"""\
static __device__ __forceinline__ void wait_barrier(void* barrier, unsigned parity) {{
  unsigned done = 0;
  while (!done)
    asm volatile("{{ .reg .pred p; {instruction}.shared::cta.b64 p, [%1], %2; "
                 "selp.u32 %0, 1, 0, p; }}"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
}}
"""
    return DeviceFunction("wait_barrier", text, architecture, _SHARED)


WAIT_BARRIER = _waiting("mbarrier.test_wait.parity", 80)
WAIT_BARRIER_90 = _waiting("mbarrier.try_wait.parity", 90)  # suspends the thread for a while
