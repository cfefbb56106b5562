"""Says what the statuses of CUDA's driver mean for a program, and what to do about them."""

from __future__ import annotations

OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
NO_DEVICE = 100

LOSES_THE_CONTEXT = {
    214: "memory of the GPU had an error that cannot be corrected",
    220: "a link between GPUs had an error that cannot be corrected",
    226: "a fault on the GPU was contained",
    700: "a kernel accessed memory that is not its own",
    702: "a kernel ran longer than the system allows",
    709: "the context was destroyed, by something else in this process",
    710: "an assertion of a kernel failed",
    714: "the stack of a kernel overflowed, or a fault of the hardware",
    715: "a kernel met an instruction that the GPU does not know",
    716: "a kernel accessed an address that is not a multiple of the element's size",
    717: "a kernel accessed memory with an instruction for another kind of memory",
    718: "a kernel jumped to an address that is no code",
    719: "a kernel failed",
    721: "a kernel ended without giving back tensor memory",
}
"""Statuses after which the driver refuses all calls for this device in this process."""

ADVICE = {
    3: "CUDA does not survive fork(): start workers with the method 'spawn'",
    34: "the library found is a stub for linking: install NVIDIA's driver",
    36: "the driver is too old for this call: update it",
    46: "another process has the GPU for itself",
    100: "no GPU is visible: look at nvidia-smi and at CUDA_VISIBLE_DEVICES",
    101: "look at nvidia-smi and at CUDA_VISIBLE_DEVICES for the numbers of the GPUs",
    200: "the code is damaged, or not for GPUs",
    209: "the code is for another architecture: compile for this GPU (attribute `arch` of the "
    "target, such as 'sm_90')",
    218: "the PTX has a mistake: the log of its compiler is above",
    221: "the PTX cannot be compiled here: compile to a cubin",
    222: "the driver is older than the compiler that wrote the PTX: update it, or compile to a "
    "cubin",
    500: "there is no such function or variable in the code",
    701: "the block needs more registers or threads than there are: launch fewer threads, or bound "
    "the registers (`__launch_bounds__`)",
    801: "this GPU or driver cannot do it",
    803: "the driver's kernel module and its library are of different versions: restart the "
    "machine after an update",
    804: "the library is from a compatibility package that does not know this GPU: remove it from "
    "LD_LIBRARY_PATH",
    900: "this call is not possible while a graph is recorded on the stream",
    912: "the cluster is larger than this GPU allows",
}
"""Status → what to do."""
