"""Writes the functions on the host that launch kernels, and the data that launching needs.

Host code calls a kernel K as `int32 __tilesmith_launch_DIGEST_K(self, args, count, result)`; the
arguments are K's parameters, the sizes that its tags name, and the number of the device. The
launcher stores the parameters in the widths that K has, and calls the device's driver:

    @__tilesmith_device_DIGEST   the descriptor: where the code is, and where the driver is
    @record.N                    one record per kernel: the kernel's handle on each device

At first all handles are null: the launcher asks the runtime (the global function
`tilesmith.runtime.launch_kernel`, `runtime/device_code.py`) to load the code and to fill in the
driver's functions and the handles, and then tries again. From then on it needs nobody: a launch
on a device of CUDA is a call of `cuLaunchKernel` in the stream that tvm-ffi has for the device. A
kind of device without such handles (OpenCL) is launched by the runtime each time. What a driver
refuses goes to the same function, which says why. So does a pointer that is less aligned than the
kernel's wide accesses need, before the driver is called: such an access would make the device
unusable for the whole process.

Nothing depends on names: two libraries, or two modules in one library, do not meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilesmith.codegen.gpu.launch_context import ENTER_CONTEXT, LEAVE_CONTEXT
from tilesmith.codegen.gpu.launch_maps import (
    MAP_WORDS,
    encoder_text,
    map_arguments,
    map_constants,
)
from tilesmith.codegen.llvm.compile import compile_text
from tilesmith.codegen.llvm.dtypes import symbol
from tilesmith.ir.expr import IntImm
from tilesmith.ir.queries import nodes
from tilesmith.runtime.device_container import (
    CLUSTER,
    COOPERATIVE,
    DYNAMIC_SHARED,
    CodeContainer,
    KernelRecord,
)
from tilesmith.runtime.devices import DEVICE_TYPES
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.launch_layout import (
    DESCRIPTOR_PREFIX,
    DESCRIPTOR_WORDS,
    DEVICES,
    DRIVER,
    FUNCTIONS,
    LAUNCH_FUNCTION,
    LAYOUT_VERSION,
    MISALIGNED,
    RECORD_WORDS,
    RING,
    RING_NAMES,
    SIZES,
)  # fmt: skip
from tilesmith.runtime.tensor_maps import TensorMap
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.target.features import llvm_machine
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import has_barrier_of_grid
from tilesmith.tir.stmt import AttrStmt

__all__ = ["Launchers", "kernel_record", "launchers_of"]

_ANY_BYTES = 16
_CLUSTER_TAGS = ("clusterCtaIdx.x", "clusterCtaIdx.y", "clusterCtaIdx.z")
_IGNORED = ("vthread", "cthread", *_CLUSTER_TAGS)


@dataclass(frozen=True)
class Launchers:
    """The launchers of the kernels of one module."""

    kind: str
    """The name of the device type."""
    kernels: tuple[KernelRecord, ...]
    digest: str
    """Tells the symbols of this module from those of others."""

    def symbol(self, kernel: str) -> str:
        """Return the function that launches a kernel."""
        return f"__tilesmith_launch_{self.digest}_{kernel}"

    def text(self, code: CodeContainer, host: Target) -> str:
        """Return the LLVM text of the launchers, with the code embedded."""
        return _LauncherText(self, code.pack(), host).text()

    def object(self, code: CodeContainer, host: Target) -> bytes:
        """Return the object file of the launchers."""
        return compile_text(self.text(code, host), host)


def launchers_of(
    kind: str,
    functions: Sequence[PrimFunc],
    source: str,
    alignments: Mapping[str, Sequence[int]],
    tensor_maps: Mapping[str, Sequence[TensorMap]] | None = None,
) -> Launchers:
    """Return the launchers of lowered kernels whose code, as text, is `source`; `alignments` has
    the bytes to which the memory of their parameters has to be aligned, by the kernels' symbols,
    and `tensor_maps` the tensors that launches describe.
    """
    kernels, maps = [], tensor_maps or {}
    for function in functions:
        name = str(function.attrs["global_symbol"])
        kernels.append(kernel_record(function, alignments.get(name, ()), maps.get(name, ())))
    words = repr((kind, kernels, source)).encode()
    return Launchers(kind, tuple(kernels), hashlib.blake2b(words, digest_size=8).hexdigest())


def kernel_record(
    function: PrimFunc, alignments: Sequence[int] = (), tensor_maps: Sequence[TensorMap] = ()
) -> KernelRecord:
    """Return what launching a lowered kernel needs to know about it, given the bytes to which the
    memory of its parameters has to be aligned, and the tensors that a launch describes.
    """
    name = str(function.attrs["global_symbol"])
    for parameter in function.params:
        _check_parameter(name, parameter.name, parameter.dtype)
    tags = tuple([str(tag) for tag in function.attrs.get("tir.kernel_launch_params", ())])
    for tag in tags:
        if tag not in SIZES and not tag.startswith(_IGNORED):
            raise UnsupportedError(
                f"kernel '{name}' is bound to '{tag}', which no launch has",
                span=function.span,
                notes=(f"known: {', '.join(SIZES)}",),
            )
    attributes: dict[str, object] = {}
    if function.attrs.get("tir.cooperative_launch") or has_barrier_of_grid(function.body):
        attributes[COOPERATIVE] = True
    cluster = _cluster(function)
    if cluster is not None:
        attributes[CLUSTER] = cluster
    parameters = tuple([str(parameter.dtype) for parameter in function.params])
    names = tuple([parameter.name for parameter in function.params])
    needed = tuple(alignments) if any(alignments) else ()
    return KernelRecord(name, parameters, tags, attributes, names, needed, tuple(tensor_maps))


def _cluster(function: PrimFunc) -> list[int] | None:
    """Return the sizes of the clusters of blocks that a kernel asks for."""
    given = function.attrs.get("tir.cluster_dims")
    if given is not None:
        return [int(size) for size in (*given, 1, 1, 1)][:3]
    found: dict[str, int] = {}
    for node in nodes(function.body, AttrStmt):
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            tag, extent = node.node.thread_tag, node.value
            if tag in _CLUSTER_TAGS and isinstance(extent, IntImm):
                found[tag] = extent.value
    return [found.get(tag, 1) for tag in _CLUSTER_TAGS] if found else None


def _check_parameter(kernel: str, name: str, dtype: DataType) -> None:
    if dtype.is_handle or (dtype.lanes == 1 and _reader(dtype) is not None):
        return
    raise UnsupportedError(
        f"parameter '{name}' of kernel '{kernel}' is a {dtype}, which cannot be passed by value",
        notes=("pass it in a tensor with one element, or as a wider type",),
    )


def _reader(dtype: DataType) -> tuple[str, int] | None:
    """Return the LLVM type of a parameter and its bytes."""
    if dtype.is_bool:
        return "i8", 1
    if dtype.code in ("int", "uint") and dtype.bits in (8, 16, 32, 64):
        return f"i{dtype.bits}", dtype.bits // 8
    known = {"float64": ("double", 8), "float32": ("float", 4), "float16": ("i16", 2),
             "bfloat16": ("i16", 2)}  # fmt: skip
    return known.get(str(dtype))


class _LauncherText:
    """Writes the text of one object file."""

    def __init__(self, launchers: Launchers, content: bytes, host: Target) -> None:
        self.launchers, self.content, self.host = launchers, content, host
        self.lines: list[str] = []
        self.count = 0

    def define(self, value: str) -> str:
        """Write an instruction; return the name of its value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {value}")
        return f"%v{self.count}"

    def write(self, line: str) -> None:
        """Write an instruction without a value."""
        self.lines.append(f"  {line}")

    def text(self) -> str:
        """Return the whole text."""
        machine = llvm_machine(self.host)
        if not machine.triple.startswith(("x86_64", "aarch64", "arm64", "riscv64", "loongarch64")):
            raise UnsupportedError(f"kernels cannot be launched by a host '{machine.triple}'")
        kernels = self.launchers.kernels
        digest = self.launchers.digest
        records = ", ".join([f"ptr @record.{number}" for number in range(len(kernels))])
        data = "".join([f"\\{byte:02x}" for byte in self.content])
        size = len(self.content)
        name_bytes = len(LAUNCH_FUNCTION)
        head = [
            f'target triple = "{machine.triple}"',
            f'@code = internal constant [{size} x i8] c"{data}", align 64',
            f"@records = internal constant [{len(kernels)} x ptr] [{records}], align 8",
            f"@{DESCRIPTOR_PREFIX}{digest} = global {{ i64, ptr, i64, i64, ptr, "
            f"[{DESCRIPTOR_WORDS - 5} x ptr] }} {{ i64 {LAYOUT_VERSION}, ptr @code, i64 {size}, "
            f"i64 {len(kernels)}, ptr @records, "
            f"[{DESCRIPTOR_WORDS - 5} x ptr] zeroinitializer }}, align 64",
            f'@name = internal constant [{name_bytes} x i8] c"{LAUNCH_FUNCTION}"',
            f"@name.array = internal constant {{ ptr, i64 }} {{ ptr @name, i64 {name_bytes} }}",
            "@launch.slot = internal global ptr null",
        ]
        for number, kernel in enumerate(kernels):
            head += map_constants(number, kernel.tensor_maps)
            head.append(
                f"@record.{number} = internal global {{ i64, ptr, [{RECORD_WORDS - 2} x ptr] }} "
                f"{{ i64 {number}, ptr @{DESCRIPTOR_PREFIX}{digest}, "
                f"[{RECORD_WORDS - 2} x ptr] zeroinitializer }}, align 64"
            )
        functions = [self._launcher(number) for number in range(len(kernels))]
        device_type = DEVICE_TYPES[self.launchers.kind]
        parts = [_slow_text(), _fast_text(device_type)]
        if any(kernel.tensor_maps for kernel in kernels):
            parts.append(encoder_text())
        return "\n".join([*head, *parts, *functions, ""])

    def _launcher(self, number: int) -> str:
        """Return the function that unpacks the arguments of one kernel and launches it."""
        kernel = self.launchers.kernels[number]
        self.lines, self.count = [], 0
        count = len(kernel.parameters)
        slots = max(1, count + len(kernel.tensor_maps))
        params = self.define(f"alloca [{slots} x ptr], align 8")
        maps = [self.define(f"alloca [{MAP_WORDS} x i64], align 64") for _ in kernel.tensor_maps]
        sizes = self.define(f"alloca [{len(SIZES)} x i64], align 8")
        pointers: dict[int, str] = {}
        for place, dtype in enumerate(kernel.parameters):
            value = self._parameter(params, place, DataType(dtype))
            if DataType(dtype).is_handle:
                pointers[place] = value
        given = {tag: count + place for place, tag in enumerate(kernel.tags)}
        for place, tag in enumerate(SIZES):
            value = "0" if tag == DYNAMIC_SHARED else "1"
            if tag in given:
                value = self.define(f"load i64, ptr {self._value(given[tag])}, align 8")
            slot = self.define(f"getelementptr i64, ptr {sizes}, i64 {place}")
            self.write(f"store i64 {value}, ptr {slot}, align 8")
        wide = self.define(f"load i64, ptr {self._value(count + len(kernel.tags))}, align 8")
        device = self.define(f"trunc i64 {wide} to i32")
        wrong = self._low_bits({pointers[at]: size for at, size in enumerate(kernel.alignments)
                                if size > 1 and at in pointers})  # fmt: skip
        if wrong is not None:
            is_aligned = self.define(f"icmp eq i64 {wrong}, 0")
            self.write(f"br i1 {is_aligned}, label %aligned, label %misaligned")
            self.lines.append("misaligned:")
            refused = self.define(
                f"call i32 @ask(ptr @record.{number}, i32 {device}, ptr {params}, ptr {sizes}, "
                f"i32 {MISALIGNED})"
            )
            self.write(f"ret i32 {refused}")
            self.lines.append("aligned:")
        for place, (one, memory) in enumerate(zip(kernel.tensor_maps, maps)):
            target = self.define(f"getelementptr ptr, ptr {params}, i64 {count + place}")
            self.write(f"store ptr {memory}, ptr {target}, align 8")
            described = map_arguments(number, place, one, pointers[one.parameter])
            told = self.define(
                f"call i32 @encode(ptr @record.{number}, i32 {device}, ptr {params}, "
                f"ptr {sizes}, ptr {memory}, {described})"
            )
            is_encoded = self.define(f"icmp eq i32 {told}, 0")
            self.write(f"br i1 {is_encoded}, label %encoded.{place}, label %refused.{place}")
            self.lines += [f"refused.{place}:", f"  ret i32 {told}", f"encoded.{place}:"]
        status = self.define(
            f"call i32 @launch(ptr @record.{number}, i32 {device}, ptr {params}, ptr {sizes})"
        )
        self.write(f"ret i32 {status}")
        name = symbol(self.launchers.symbol(kernel.name))
        head = (
            f"define hidden i32 {name}(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {{"
        )
        return "\n".join([head, *self.lines, "}"])

    def _value(self, place: int) -> str:
        return self.define(f"getelementptr i8, ptr %args, i64 {place * _ANY_BYTES + 8}")

    def _low_bits(self, needed: Mapping[str, int]) -> str | None:
        """Return a number that is 0 if each pointer is a multiple of its size, a power of two;
        None without pointers.
        """
        found = None
        for pointer, size in needed.items():
            bits = self.define(f"ptrtoint ptr {pointer} to i64")
            low = self.define(f"and i64 {bits}, {size - 1}")
            found = low if found is None else self.define(f"or i64 {found}, {low}")
        return found

    def _parameter(self, params: str, place: int, dtype: DataType) -> str:
        """Store one argument in the width that the kernel has, and its address in `params`; return
        the argument.
        """
        source = self._value(place)
        slot = self.define("alloca i64, align 8")
        if dtype.is_handle:
            value, kind = self.define(f"load ptr, ptr {source}, align 8"), "ptr"
        else:
            reader = _reader(dtype)
            assert reader is not None  # `kernel_record` has looked
            kind = reader[0]
            if str(dtype) in _FROM_DOUBLE:
                number = self.define(f"load double, ptr {source}, align 8")
                value = _FROM_DOUBLE[str(dtype)](self, number)
            else:
                wide = self.define(f"load i64, ptr {source}, align 8")
                value = wide if kind == "i64" else self.define(f"trunc i64 {wide} to {kind}")
        self.write(f"store {kind} {value}, ptr {slot}, align 8")
        target = self.define(f"getelementptr ptr, ptr {params}, i64 {place}")
        self.write(f"store ptr {slot}, ptr {target}, align 8")
        return value


def _to_float(out: _LauncherText, value: str) -> str:
    return out.define(f"fptrunc double {value} to float")


def _to_bfloat(out: _LauncherText, value: str) -> str:
    # the value came from a bfloat16, so that cutting its bits off loses nothing
    bits = out.define(f"bitcast float {_to_float(out, value)} to i32")
    return out.define(f"trunc i32 {out.define(f'lshr i32 {bits}, 16')} to i16")


def _to_half(out: _LauncherText, value: str) -> str:
    """Write the bits of a double that came from a float16: nothing has to be rounded.

    Multiplied by 2**-112, a float has the exponent that a float16 has, numbers close to zero
    included; only infinities and what is no number keep theirs.
    """
    single = _to_float(out, value)
    bits = out.define(f"bitcast float {single} to i32")
    sign = out.define(f"and i32 {out.define(f'lshr i32 {bits}, 16')}, 32768")
    scaled = out.define(f"fmul float {single}, 0x38F0000000000000")
    moved = out.define(f"lshr i32 {out.define(f'bitcast float {scaled} to i32')}, 13")
    finite = out.define(f"and i32 {moved}, 32767")
    rest = out.define(f"and i32 {out.define(f'lshr i32 {bits}, 13')}, 1023")
    other = out.define(f"or i32 {rest}, 31744")
    exponent = out.define(f"and i32 {bits}, 2139095040")
    is_other = out.define(f"icmp eq i32 {exponent}, 2139095040")
    chosen = out.define(f"select i1 {is_other}, i32 {other}, i32 {finite}")
    return out.define(f"trunc i32 {out.define(f'or i32 {chosen}, {sign}')} to i16")


_FROM_DOUBLE: dict[str, Callable[[_LauncherText, str], str]] = {
    "float64": lambda out, value: value,
    "float32": _to_float,
    "float16": _to_half,
    "bfloat16": _to_bfloat,
}


def _slow_text() -> str:
    """Return the function that asks the runtime: to load the code, to launch, or to say why a
    launch failed. The runtime's answer 1 means: try again.
    """
    stores = []
    for place, (index, value) in enumerate((
        (4, "ptr %descriptor"), (1, "i64 %index"), (1, "i64 %device.wide"), (4, "ptr %params"),
        (4, "ptr %sizes"), (1, "i64 %status.wide"),
    )):  # fmt: skip
        stores.append(f"""
  %kind{place} = getelementptr i8, ptr %args, i64 {place * _ANY_BYTES}
  store i64 {index}, ptr %kind{place}, align 8
  %value{place} = getelementptr i8, ptr %args, i64 {place * _ANY_BYTES + 8}
  store {value}, ptr %value{place}, align 8""")
    return _SLOW.replace("STORES", "".join(stores))


_SLOW = """
declare i32 @TVMFFIFunctionGetGlobal(ptr, ptr)
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
@error.kind = internal constant [21 x i8] c"UnknownFunctionError\\00"
@error.text = internal constant [85 x i8]
  c"kernels are launched by Tilesmith's runtime, which is not loaded: 'import tilesmith'\\00"

define internal i32 @ask(ptr %record, i32 %device, ptr %params, ptr %sizes, i32 %status) noinline {
  %args = alloca [6 x { i64, i64 }], align 16
  %result = alloca { i64, i64 }, align 16
  %found = alloca ptr, align 8
  %index = load i64, ptr %record, align 8
  %descriptor.place = getelementptr ptr, ptr %record, i64 1
  %descriptor = load ptr, ptr %descriptor.place, align 8
  %device.wide = sext i32 %device to i64
  %status.wide = sext i32 %status to i64
  %known = load atomic ptr, ptr @launch.slot acquire, align 8
  %is.known = icmp ne ptr %known, null
  br i1 %is.known, label %call, label %find
find:
  store ptr null, ptr %found, align 8
  %looked = call i32 @TVMFFIFunctionGetGlobal(ptr @name.array, ptr %found)
  %new = load ptr, ptr %found, align 8
  %exists = icmp ne ptr %new, null
  br i1 %exists, label %keep, label %unknown
unknown:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @error.kind, ptr @error.text)
  ret i32 -1
keep:
  store atomic ptr %new, ptr @launch.slot release, align 8
  br label %call
call:
  %function = phi ptr [ %known, %0 ], [ %new, %keep ]STORES
  store { i64, i64 } zeroinitializer, ptr %result, align 16
  %called = call i32 @TVMFFIFunctionCall(ptr %function, ptr %args, i32 6, ptr %result)
  %is.right = icmp eq i32 %called, 0
  br i1 %is.right, label %answer, label %leave
leave:
  ret i32 %called
answer:
  %answer.place = getelementptr i8, ptr %result, i64 8
  %said = load i64, ptr %answer.place, align 8
  %again = icmp eq i64 %said, 1
  br i1 %again, label %retry, label %done
done:
  ret i32 0
retry:
  %status.again = tail call i32 @launch(ptr %record, i32 %device, ptr %params, ptr %sizes)
  ret i32 %status.again
}
"""


def _fast_text(device_type: int) -> str:
    """Return the function that launches through the driver."""
    loads = []
    for place, tag in enumerate(SIZES):
        loads.append(f"""
  %place{place} = getelementptr i64, ptr %sizes, i64 {place}
  %size{place} = load i64, ptr %place{place}, align 8
  %word{place} = trunc i64 %size{place} to i32""")
        if tag != DYNAMIC_SHARED:
            loads.append(f"\n  %none{place} = icmp sle i64 %size{place}, 0")
    grid = range(len(SIZES) - 1)
    ors = ["  %any0 = or i1 %none0, false"]
    ors += [f"  %any{place} = or i1 %any{place - 1}, %none{place}" for place in grid if place]
    large = ["  %all0 = or i64 %size0, 0"]
    large += [f"  %all{n} = or i64 %all{n - 1}, %size{n}" for n in range(1, len(SIZES))]
    words = ", ".join([f"i32 %word{place}" for place in range(len(SIZES))])
    config = []
    for place in range(len(SIZES)):
        config.append(f"""
  %config{place} = getelementptr i32, ptr %config, i64 {place}
  store i32 %word{place}, ptr %config{place}, align 4""")
    replaced = {
        "LOADS": "".join(loads), "ORS": "\n".join(ors), "LARGE": "\n".join(large),
        "LAST_ANY": f"%any{len(SIZES) - 2}", "LAST_ALL": f"%all{len(SIZES) - 1}", "WORDS": words,
        "CONFIG": "".join(config), "DEVICES": str(DEVICES), "FUNCTIONS": str(FUNCTIONS),
        "DRIVER0": str(DRIVER), "DRIVER1": str(DRIVER + 1), "RING_PLACE": str(RING),
        "ENTER_CONTEXT": ENTER_CONTEXT, "LEAVE_CONTEXT": LEAVE_CONTEXT,
        "RING_WORDS": str(RING_NAMES + 1), "RING_MASK": str(RING_NAMES - 1),
        "DEVICE_TYPE": str(device_type),
    }  # fmt: skip
    text = _FAST
    for name, value in replaced.items():
        text = text.replace(f"<{name}>", value)
    return text


_FAST = """
declare ptr @TVMFFIEnvGetStream(i32, i32)

define internal i32 @launch(ptr %record, i32 %device, ptr %params, ptr %sizes) nounwind {
  %current = alloca ptr, align 8
  %config = alloca [8 x i64], align 8<LOADS>
<ORS>
  br i1 <LAST_ANY>, label %nothing, label %check
nothing:
  ret i32 0
check:
<LARGE>
  %fits = icmp ult i64 <LAST_ALL>, 2147483648
  br i1 %fits, label %look, label %refuse
refuse:
  %refused = call i32 @ask(ptr %record, i32 %device, ptr %params, ptr %sizes, i32 -1)
  ret i32 %refused
look:
  %is.device = icmp ult i32 %device, <DEVICES>
  br i1 %is.device, label %find, label %load
find:
  %number = zext i32 %device to i64
  %functions = getelementptr ptr, ptr %record, i64 <FUNCTIONS>
  %function.place = getelementptr ptr, ptr %functions, i64 %number
  %function = load atomic ptr, ptr %function.place acquire, align 8
  %is.loaded = icmp ne ptr %function, null
  br i1 %is.loaded, label %context, label %load
load:
  %loaded = call i32 @ask(ptr %record, i32 %device, ptr %params, ptr %sizes, i32 0)
  ret i32 %loaded
context:
  %descriptor.place = getelementptr ptr, ptr %record, i64 1
  %descriptor = load ptr, ptr %descriptor.place, align 8
<ENTER_CONTEXT>
  %queue = call ptr @TVMFFIEnvGetStream(i32 <DEVICE_TYPE>, i32 %device)
  %attributes.place = getelementptr ptr, ptr %record, i64 2
  %attributes = load ptr, ptr %attributes.place, align 8
  %is.plain = icmp eq ptr %attributes, null
  br i1 %is.plain, label %plain, label %special
plain:
  %launch.place = getelementptr ptr, ptr %descriptor, i64 <DRIVER0>
  %driver = load ptr, ptr %launch.place, align 8
  %plain.status = call i32 %driver(ptr %function, <WORDS>, ptr %queue, ptr %params, ptr null)
  br label %launched
special:
  store [8 x i64] zeroinitializer, ptr %config, align 8<CONFIG>
  %queue.place = getelementptr i8, ptr %config, i64 32
  store ptr %queue, ptr %queue.place, align 8
  %list.place = getelementptr i8, ptr %config, i64 40
  store ptr %attributes, ptr %list.place, align 8
  %count.place = getelementptr ptr, ptr %record, i64 3
  %count = load i64, ptr %count.place, align 8
  %count.word = trunc i64 %count to i32
  %number.place = getelementptr i8, ptr %config, i64 48
  store i32 %count.word, ptr %number.place, align 8
  %special.place = getelementptr ptr, ptr %descriptor, i64 <DRIVER1>
  %special.driver = load ptr, ptr %special.place, align 8
  %special.status = call i32 %special.driver(ptr %config, ptr %function, ptr %params, ptr null)
  br label %launched
launched:
  %status = phi i32 [ %plain.status, %plain ], [ %special.status, %special ]
<LEAVE_CONTEXT>
  %ring.place = getelementptr ptr, ptr %descriptor, i64 <RING_PLACE>
  %ring = load ptr, ptr %ring.place, align 8
  %start = mul i64 %number, <RING_WORDS>
  %of.device = getelementptr i64, ptr %ring, i64 %start
  %launches = atomicrmw add ptr %of.device, i64 1 monotonic
  %slot = and i64 %launches, <RING_MASK>
  %after = add i64 %slot, 1
  %entry = getelementptr i64, ptr %of.device, i64 %after
  store atomic ptr %record, ptr %entry monotonic, align 8
  %is.right = icmp eq i32 %status, 0
  br i1 %is.right, label %nothing, label %failed
failed:
  %said = call i32 @ask(ptr %record, i32 %device, ptr %params, ptr %sizes, i32 %status)
  ret i32 %said
}
"""
