"""Scheduled kernels as OpenCL C on a device give what the interpreter gives for the schedule's
program; as CUDA C they are compiled for three architectures.
"""

import importlib.util

import numpy as np
import pytest

import tilesmith
from tests.codegen.opencl_harness import Program, needs_opencl
from tests.tir.transform.thread_programs_script import PROGRAMS
from tilesmith.codegen.gpu import emit_source, kernel_resources
from tilesmith.codegen.gpu.limits import thread_extents
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.ir import IRModule
from tilesmith.ir.calling_convention import CallingConv
from tilesmith.ir.transform import Sequential
from tilesmith.lowering.pipelines import device_passes
from tilesmith.target import Target
from tilesmith.tir.interpreter import run

needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None
    or importlib.util.find_spec("cuda.bindings.nvrtc") is None,
    reason="needs NVRTC: pip install cuda-bindings nvidia-cuda-nvrtc nvidia-cuda-runtime",
)


def kernels_of(functions, target):
    """The kernels of scheduled functions."""
    target = Target(target)
    module = tilesmith.lower(IRModule(functions))
    module = Sequential(device_passes(target.with_host(Target("llvm"))))(module)
    found = {
        variable: function
        for variable, function in module.functions.items()
        if function.attrs.get("calling_conv") == CallingConv.DEVICE_KERNEL_LAUNCH
    }
    return IRModule(found)


def arrays_of(function, seed=0):
    """Small distinct numbers for each buffer of a function, by the buffer's name."""
    random = np.random.default_rng(seed)
    made = {}
    for buffer in function.buffers:
        shape = [int(size) for size in buffer.shape]
        values = random.permutation(int(np.prod(shape))).reshape(shape) / 8 - 2  # no two are equal
        made[buffer.name] = values.astype(buffer.dtype.numpy())
    return made


def launch(program, module, arrays, numbers=None):
    """Run the kernels of a module one after the other."""
    for variable, function in module.functions.items():
        extents = thread_extents(function)
        grid = [int(extents.extents.get(f"blockIdx.{axis}", 1)) for axis in "xyz"]
        known = {**arrays, **(numbers or {})}
        given = [known[param.name] for param in function.params]
        local = (
            4096 if "tir.use_dyn_shared_memory" in function.attrs["tir.kernel_launch_params"] else 0
        )
        program.run(variable.name_hint, grid, extents.block(), *given, local_bytes=local)


FUNCTIONS = {name: make().with_attr("global_symbol", name) for name, make in PROGRAMS.items()}


@needs_opencl
def test_scheduled_programs_on_a_device():
    modules = {name: kernels_of({name: f}, "opencl") for name, f in FUNCTIONS.items()}
    together = {v: f for module in modules.values() for v, f in module.functions.items()}
    program = Program(emit_source(IRModule(together), Target("opencl")))
    for name, function in FUNCTIONS.items():
        arrays, expected = arrays_of(function), arrays_of(function)
        run(function, *expected.values())
        launch(program, modules[name], arrays)
        for key, array in arrays.items():
            np.testing.assert_allclose(array, expected[key], rtol=1e-5, err_msg=f"{name} {key}")


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_scheduled_programs_are_compiled(arch):
    target = Target(f"cuda -arch={arch}")
    source = emit_source(kernels_of(FUNCTIONS, target), target)
    assert "__shared__" in source
    found = kernel_resources(compile_source(source, arch))
    assert set(found) >= {f"{name}_kernel" for name in FUNCTIONS}
    assert all(0 < kernel.registers <= 255 for kernel in found.values())
    assert found["softmax_kernel"].shared_bytes > 0
