"""Runs tensor programs before and after passes and compares what they compute."""

import numpy as np

from tilesmith.ir import IntImm, IRModule
from tilesmith.ir.transform import Sequential
from tilesmith.tir import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.interpreter import run


def module(func):
    """A module with one function under its symbol."""
    return IRModule({str(func.attrs.get("global_symbol", "main")): func})


def apply(func, *passes):
    """The function after some passes."""
    mod = Sequential(list(passes))(module(func))
    (only,) = mod.functions.values()
    return only


def arrays_for(func, sizes=None, seed=0):
    """Random arrays for the parameters; ``sizes`` gives numbers to symbols by name."""
    random = np.random.default_rng(seed)
    made = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            made.append((sizes or {})[param.name])
            continue
        shape = [
            size.value if isinstance(size, IntImm) else size_of(size, sizes)
            for size in buffer.shape
        ]
        dtype = buffer.dtype.numpy()
        if buffer.dtype.is_bool:
            made.append(random.random(shape) < 0.5)
        elif buffer.dtype.is_integer:
            made.append(random.integers(0, 8, shape).astype(dtype))
        else:
            made.append(np.asarray(random.random(shape)).astype(dtype))
    return made


def size_of(size, sizes):
    names = {}

    def look(node):
        if hasattr(node, "name"):
            names[node] = sizes[node.name]
        for child in node.children():
            look(child)

    look(size)
    value = substitute(size, names)
    assert isinstance(value, IntImm)
    return value.value


def outputs(func, arrays):
    """What a function leaves in its arrays, by the interpreter."""
    copies = [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]
    run(func, *copies)
    return copies


def assert_same(got, want, message="", rtol=1e-5):
    for number, (one, other) in enumerate(zip(got, want)):
        if isinstance(other, np.ndarray) and other.dtype.kind == "f":
            tolerance = 2e-3 if other.dtype == np.float16 else rtol
            np.testing.assert_allclose(
                one, other, rtol=tolerance, atol=tolerance, err_msg=f"{message}, argument {number}"
            )
        else:
            np.testing.assert_array_equal(one, other, err_msg=f"{message}, argument {number}")


def assert_same_results(before, after, sizes=None, seed=0):
    """Two functions compute the same from the same random arrays."""
    arrays = arrays_for(before, sizes, seed)
    assert_same(outputs(after, arrays), outputs(before, arrays))
    assert isinstance(after, PrimFunc)
