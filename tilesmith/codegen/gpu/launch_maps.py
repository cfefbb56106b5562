"""Writes the part of a launcher that describes tensors to the hardware (``TensorMap``).

Each launch encodes them anew, as the memory of arguments differs from call to call: the driver's
function computes 128 bytes, without asking the device. They go to the kernel as one more parameter.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.codegen.gpu.launch_context import ENTER_CONTEXT, LEAVE_CONTEXT
from tilesmith.runtime.launch_layout import DEVICES, ENCODER, LOAD, TENSOR_MAP
from tilesmith.runtime.tensor_maps import DATA_TYPES, SWIZZLES, TensorMap

__all__ = ["MAP_WORDS", "encoder_text", "map_arguments", "map_constants"]

MAP_WORDS = 16  # of 64 bits


def map_constants(kernel: int, maps: Sequence[TensorMap]) -> list[str]:
    """Return the definitions of the numbers of a kernel's maps."""
    lines = []
    for number, one in enumerate(maps):
        lists = (
            ("sizes", "i64", one.sizes), ("strides", "i64", one.strides or (0,)),
            ("box", "i32", one.box), ("steps", "i32", (1,) * len(one.box)),
        )  # fmt: skip
        for word, kind, values in lists:
            items = ", ".join([f"{kind} {value}" for value in values])
            lines.append(
                f"@map.{kernel}.{number}.{word} = internal constant [{len(values)} x {kind}] "
                f"[{items}], align 8"
            )
    return lines


def map_arguments(kernel: int, number: int, one: TensorMap, tensor: str) -> str:
    """Return the arguments of ``@encode`` that say what a map describes."""
    lists = [f"ptr @map.{kernel}.{number}.{word}" for word in ("sizes", "strides", "box", "steps")]
    return ", ".join([
        f"i32 {DATA_TYPES[one.element]}", f"i32 {len(one.sizes)}", f"ptr {tensor}", *lists,
        f"i32 {SWIZZLES[one.swizzle]}",
    ])  # fmt: skip


def encoder_text() -> str:
    """Return the function that encodes one map; it returns 0, or what a launcher has to return."""
    text = _ENCODE
    for name, value in {
        "ENCODER": ENCODER, "DEVICES": DEVICES, "LOAD": LOAD, "TENSOR_MAP": TENSOR_MAP,
        "ENTER_CONTEXT": ENTER_CONTEXT, "LEAVE_CONTEXT": LEAVE_CONTEXT,
    }.items():  # fmt: skip
        text = text.replace(f"<{name}>", str(value))
    return text


_ENCODE = """
define internal i32 @encode(ptr %record, i32 %device, ptr %params, ptr %sizes, ptr %map,
    i32 %type, i32 %axes, ptr %tensor, ptr %extents, ptr %strides, ptr %box, ptr %steps,
    i32 %swizzle) nounwind noinline {
  %current = alloca ptr, align 8
  %descriptor.place = getelementptr ptr, ptr %record, i64 1
  %descriptor = load ptr, ptr %descriptor.place, align 8
  %encoder.place = getelementptr ptr, ptr %descriptor, i64 <ENCODER>
  %number = zext i32 %device to i64
  %is.device = icmp ult i32 %device, <DEVICES>
  br i1 %is.device, label %look, label %load
look:
  %functions = getelementptr ptr, ptr %record, i64 4
  %function.place = getelementptr ptr, ptr %functions, i64 %number
  %function = load atomic ptr, ptr %function.place acquire, align 8
  %encoder = load ptr, ptr %encoder.place, align 8
  %is.loaded = icmp ne ptr %function, null
  br i1 %is.loaded, label %enter, label %load
load:
  %asked = call i32 @ask(ptr %record, i32 %device, ptr %params, ptr %sizes, i32 <LOAD>)
  %is.filled = icmp eq i32 %asked, 0
  br i1 %is.filled, label %look, label %leave
leave:
  ret i32 %asked
enter:
<ENTER_CONTEXT>
  %status = call i32 %encoder(ptr %map, i32 %type, i32 %axes, ptr %tensor, ptr %extents,
    ptr %strides, ptr %box, ptr %steps, i32 0, i32 %swizzle, i32 2, i32 0)
<LEAVE_CONTEXT>
  %is.right = icmp eq i32 %status, 0
  br i1 %is.right, label %done, label %failed
done:
  ret i32 0
failed:
  %shown = sub i32 <TENSOR_MAP>, %status
  %said = call i32 @ask(ptr %record, i32 %device, ptr %params, ptr %sizes, i32 %shown)
  ret i32 %said
}
"""
"""The last numbers of the driver's call: elements are not interleaved (0), the mode of the swizzle,
the L2 cache takes 128 bytes at a time (2), what is outside of the tensor is 0 (0)."""
