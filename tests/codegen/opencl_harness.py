"""Builds OpenCL C text and runs it with pyopencl on the first device (PoCL's CPU): without the
runtime of Tilesmith. `run_on_opencl` is for whole programs, with that runtime.
"""

import importlib.util
from functools import cache

import numpy as np
import pytest

import tilesmith
from tests.codegen.differential import Differential, agree
from tilesmith.codegen.gpu import emit_source
from tilesmith.ir import Call, GlobalVar, IRModule, PointerType, PrimType, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.opencl.old_pocl import mend
from tilesmith.target import Target
from tilesmith.tir import Evaluate, PrimFunc, SeqStmt
from tilesmith.tir.interpreter import run

OPENCL = Target("opencl")


@cache
def context():
    """The context and queue of the first device; None without one."""
    if importlib.util.find_spec("pyopencl") is None:
        return None
    import pyopencl as cl

    try:
        devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:
        return None
    if not devices:
        return None
    mend(devices[0])
    made = cl.Context(devices[:1])
    return made, cl.CommandQueue(made)


needs_opencl = pytest.mark.skipif(
    context() is None,
    reason="needs pyopencl and an OpenCL device: pip install pyopencl pocl-binary-distribution",
)


def run_on_opencl(program, *arrays, parameters=None):
    """Build a schedule or module for OpenCL, and run it on arrays, which it may change, by the
    runtime of Tilesmith; return whether that was done: not without an OpenCL device.
    """
    if context() is None:
        return False
    module = tilesmith.build(program, parameters, target=Target("opencl", host="llvm"))
    device = tilesmith.opencl(0)
    given = [tilesmith.nd.array(array, device) for array in arrays]
    module(*given)
    for array, tensor in zip(arrays, given):
        array[...] = tensor.numpy()
    return True


class Program:
    """A built program, whose kernels take arrays, which they change, and numbers."""

    def __init__(self, source, options=()):
        import pyopencl as cl

        self.context, self.queue = context()
        self.program = cl.Program(self.context, source).build(options)

    def run(self, kernel, grid, block, *arguments, local_bytes=0):
        """Launch a kernel; copy memory back."""
        import pyopencl as cl

        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        given, copies = [], []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                raw = argument.reshape(-1).view("u1")
                memory = cl.Buffer(
                    self.context, flags, hostbuf=np.concatenate([raw, np.zeros(4, "u1")])
                )
                copies.append((raw, memory))
                given.append(memory)
            else:
                given.append(argument)
        if local_bytes:
            given.append(cl.LocalMemory(local_bytes))
        sizes = [groups * size for groups, size in zip(grid, block)]
        getattr(self.program, kernel)(self.queue, sizes, block, *given)
        for raw, memory in copies:
            cl.enqueue_copy(self.queue, raw, memory)
        self.queue.finish()


class OnDevice(Differential):
    """Elementwise functions that one kernel calls: the device compiles one kernel, not hundreds."""

    def check(self, target=OPENCL, expected=None):
        """Run all functions both ways; all that differ are named."""
        data, offsets, calls = bytearray(), {}, []
        memory = Var("data", PointerType(PrimType("uint8"), "global"))
        for _function, name, inputs, result, _ulps, _what in self.cases:
            arguments = []
            for array in [*inputs, np.zeros(len(inputs[0]), DataType(result).numpy())]:
                data.extend(bytes(-len(data) % 128))
                offsets.setdefault(name, []).append(len(data))
                place = Call(
                    "handle", "tir.handle_add_byte_offset", (memory, const(len(data), "int64"))
                )
                arguments.append(place)
                data.extend(array.tobytes())
            calls.append(Evaluate(Call("void", GlobalVar(name), tuple(arguments))))
        main = PrimFunc([memory], SeqStmt(calls) if len(calls) > 1 else calls[0])
        functions = {name: function for function, name, *_ in self.cases}
        source = emit_source(IRModule({**functions, "all_cases": main}), target)
        content = np.frombuffer(data, "u1").copy()
        Program(source, ["-cl-opt-disable"]).run("all_cases", (1, 1, 1), (1, 1, 1), content)
        wrong = []
        for function, name, inputs, result, ulps, what in self.cases:
            right = np.zeros(len(inputs[0]), DataType(result).numpy())
            start = offsets[name][-1]
            got = content[start : start + right.nbytes].view(right.dtype)
            with np.errstate(all="ignore"):
                run(function, *inputs, right)
            for place in np.nonzero(~agree(got, right, ulps))[0][:3]:
                given = ", ".join([str(column[place]) for column in inputs])
                wrong.append(f"{what} of {given}: {got[place]}, interpreted {right[place]}")
        assert not wrong, "\n".join(wrong)
