"""Builds small lowered functions and calls them directly through their C interface."""

import ctypes
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np

from tilesmith import codegen
from tilesmith.codegen import llvm
from tilesmith.codegen.c import find_compiler
from tilesmith.ir import Broadcast, IRModule, Ramp, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.target import Target
from tilesmith.tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    PrimFunc,
    decl_buffer,
)

HOST = Target("llvm")

_C_TYPES = {
    "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64, "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64, "float32": ctypes.c_float,
    "float64": ctypes.c_double, "bool": ctypes.c_bool, "handle": ctypes.c_void_p,
}  # fmt: skip


def kernel(params: list, body: Any, name: str = "kernel", **attrs: Any) -> PrimFunc:
    """A lowered function; buffers among the parameters stand for their pointers."""
    variables = [param.data if isinstance(param, Buffer) else param for param in params]
    attrs = {"global_symbol": name, "tir.noalias": True, **attrs}
    return PrimFunc(variables, body, attrs=attrs)


class Compiled:
    """A compiled module whose kernels are called with numpy arrays and Python numbers."""

    def __init__(self, functions: Any, target: Target = HOST) -> None:
        if isinstance(functions, PrimFunc):
            functions = [functions]
        if not isinstance(functions, IRModule):
            functions = IRModule({f.attrs["global_symbol"]: f for f in functions})
        self.functions = {v.name_hint: f for v, f in functions.functions.items()}
        # quick code is enough for C: what is looked at here is the source
        self.module = codegen.build(functions, target, 1 if target.kind.name == "c" else None)
        if target.kind.name == "c":
            compile_strictly(self.module.get_source("c"))

    def __call__(self, *arguments: Any, name: str | None = None) -> int:
        """Call a kernel (the last one by default); its status."""
        name = name or list(self.functions)[-1]
        function = self.functions[name]
        kinds = [_C_TYPES[str(param.dtype)] for param in function.params]
        symbol = llvm.kernel_symbol(name) if self.module.type_key == "llvm" else name
        address = self.module.library.symbol(symbol)
        call = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)
        return call(*[a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments])


_STRICT = "-std=c99 -Wall -Wextra -Werror -fsyntax-only -x c -"
# what a program says itself (`x < x`) is not the back end's fault
_OF_THE_PROGRAM = "-Wno-type-limits -Wno-tautological-compare"


def compile_strictly(source: str) -> None:
    """Ask the C compiler for C99 without a single warning."""
    command = [find_compiler(), *_STRICT.split(), *_OF_THE_PROGRAM.split()]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def elementwise(
    make: Callable[..., Any], dtypes: list[str], result: str, count: int, lanes: int
) -> PrimFunc:
    """`out[i] = make(in0[i], in1[i], ...)` for `count` elements, `lanes` at a time."""
    inputs = [decl_buffer((count,), dtype, f"in{n}") for n, dtype in enumerate(dtypes)]
    output = decl_buffer((count,), result, "out")
    loop = Var("i", "int32")
    index = Ramp(loop * lanes, 1, lanes) if lanes > 1 else loop
    value = make(*[BufferLoad(buffer, [index]) for buffer in inputs])
    body = For(loop, 0, count // lanes, ForKind.SERIAL, BufferStore(output, value, [index]))
    return kernel([*inputs, output], body)


def run_elementwise(
    make: Callable[..., Any], inputs: list[np.ndarray], result: str, lanes: int, target: Any = HOST
) -> np.ndarray:
    """The output of `elementwise` on arrays of one length."""
    dtypes = [str(DataType(array.dtype)) for array in inputs]
    function = elementwise(make, dtypes, result, len(inputs[0]), lanes)
    output = np.zeros(len(inputs[0]), DataType(result).numpy())
    assert Compiled(function, target)(*inputs, output) == 0
    return output


def like(value: Any, expr: Any) -> Any:
    """A constant with the dtype of an expression, in all its lanes."""
    made = const(value, expr.dtype.element)
    return made if expr.dtype.lanes == 1 else Broadcast(made, expr.dtype.lanes)
