"""Writes the lines of LLVM with which a launcher enters the CUDA context of a device and leaves it.

The driver works in the context that is current in the calling thread. A launcher makes that of its
device current where it is not, and afterwards restores the one before, if there was one.
"""

from __future__ import annotations

from tilesmith.runtime.launch_layout import CONTEXTS, DRIVER

__all__ = ["ENTER_CONTEXT", "LEAVE_CONTEXT"]

_GET, _SET = DRIVER + 2, DRIVER + 3

ENTER_CONTEXT = f"""\
  %contexts = getelementptr ptr, ptr %descriptor, i64 {CONTEXTS}
  %wanted.place = getelementptr ptr, ptr %contexts, i64 %number
  %wanted = load ptr, ptr %wanted.place, align 8
  %get.place = getelementptr ptr, ptr %descriptor, i64 {_GET}
  %get = load ptr, ptr %get.place, align 8
  %set.place = getelementptr ptr, ptr %descriptor, i64 {_SET}
  %set = load ptr, ptr %set.place, align 8
  store ptr null, ptr %current, align 8
  %got = call i32 %get(ptr %current)
  %before = load ptr, ptr %current, align 8
  %is.current = icmp eq ptr %before, %wanted
  br i1 %is.current, label %inside, label %enter.context
enter.context:
  %entered = call i32 %set(ptr %wanted)
  br label %inside
inside:"""
"""Goes on in the block `inside`, with the context of device `%number` current; `%descriptor` is the
device's descriptor, `%current` memory for a pointer."""

LEAVE_CONTEXT = """\
  %had.none = icmp eq ptr %before, null
  %stays = or i1 %is.current, %had.none
  br i1 %stays, label %outside, label %leave.context
leave.context:
  %returned = call i32 %set(ptr %before)
  br label %outside
outside:"""
"""Goes on in the block `outside`; the context that the caller had is current again."""
