"""Made by tools/write_stubs.py from the records of operators; do not edit."""
# fmt: off

from tilesmith.ir.expr import GlobalVar as GlobalVar
from tilesmith.relax.expr import Call as Call
from tilesmith.relax.op import builtin as builtin
from tilesmith.relax.op import grad as grad
from tilesmith.relax.op import image as image
from tilesmith.relax.op import memory as memory
from tilesmith.relax.op import nn as nn
from tilesmith.relax.op import vision as vision
from tilesmith.relax.op.declaration import define as define
from tilesmith.relax.spec import OpSpec as OpSpec
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol

from tilesmith.ir import Op

_P = ParamSpec("_P")

class _Operator(Protocol[_P]):
    op: Op
    __name__: str
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Call: ...

def _operator(function: Callable[_P, Call]) -> _Operator[_P]: ...

@_operator
def abs(x: Any) -> Call:
    """|x|, elementwise."""

@_operator
def acos(x: Any) -> Call:
    """arc cosine, elementwise."""

@_operator
def acosh(x: Any) -> Call:
    """inverse hyperbolic cosine, elementwise."""

@_operator
def add(x1: Any, x2: Any) -> Call:
    """x1 + x2, elementwise with broadcasting."""

@_operator
def all(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """Whether all hold over ``axis`` (an axis, several, or all of them)."""

@_operator
def any(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """Whether any holds over ``axis`` (an axis, several, or all of them)."""

@_operator
def append(data: Any, row: Any) -> Call:
    """A tensor with one more element along its first axis. A loop that carries it does not copy what is there already."""

@_operator
def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Call:
    """Return ``start``, ``start + step``, … before ``end``; with one number: from 0 to before"""

@_operator
def argmax(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The index (int64) of the largest value along an axis, the first if there are several."""

@_operator
def argmin(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The index (int64) of the smallest value along an axis, the first if there are several."""

@_operator
def argsort(data: Any, axis: Any = -1, descending: Any = False, dtype: Any = 'int32') -> Call:
    """The indices that put the elements in order along an axis."""

@_operator
def asin(x: Any) -> Call:
    """arc sine, elementwise."""

@_operator
def asinh(x: Any) -> Call:
    """inverse hyperbolic sine, elementwise."""

@_operator
def assert_op(condition: Any, *values: Any, format_args: Any = None, format: Any = '') -> Call:
    """Check a condition when the program runs; ``format`` is the message."""

@_operator
def astype(x: Any, dtype: Any) -> Call:
    """``x`` converted to a dtype (floats become integers by truncation), elementwise."""

@_operator
def atan(x: Any) -> Call:
    """arc tangent, elementwise."""

@_operator
def atanh(x: Any) -> Call:
    """inverse hyperbolic tangent, elementwise."""

@_operator
def batch_flatten(data: Any) -> Call:
    """All axes but the first in one."""

@_operator
def bitwise_and(x1: Any, x2: Any) -> Call:
    """x1 & x2, elementwise with broadcasting."""

@_operator
def bitwise_not(x: Any) -> Call:
    """~x, elementwise."""

@_operator
def bitwise_or(x1: Any, x2: Any) -> Call:
    """x1 | x2, elementwise with broadcasting."""

@_operator
def bitwise_xor(x1: Any, x2: Any) -> Call:
    """x1 ^ x2, elementwise with broadcasting."""

@_operator
def broadcast_to(x: Any, shape: Any) -> Call:
    """``x`` repeated along axes of size 1 until it has the shape."""

@_operator
def call_builtin_with_ctx(func: Any, args: Any, *, sinfo_args: Any = None) -> Call:
    """Call a function of the runtime."""

@_operator
def call_dps_packed(func: Any, args: Any, out_sinfo: Any, dtype: Any = None) -> Call:
    """Call a registered function (its name, or an ExternFunc) that writes its results into the"""

@_operator
def call_inplace_packed(func: Any, *args: Any, inplace_indices: Any, sinfo_args: Any) -> Call:
    """Call a registered function that changes some of its arguments and returns them."""

def call_packed(func: Any, *args: Any, sinfo_args: Any = None, **attrs: Any) -> Call:
    """Call a registered function that returns its result and may have effects."""

@_operator
def call_pure_packed(func: Any, *args: Any, sinfo_args: Any = None) -> Call:
    """Call a registered function that has no effects and returns its result."""

@_operator
def call_tir(gvar: Any, args: Any, out_sinfo: Any, tir_vars: Any = None, dtype: Any = None) -> Call:
    """Call a PrimFunc of the module: arguments, then the results it writes, then ``tir_vars``."""

@_operator
def call_tir_inplace(gvar: GlobalVar, args: Any, inplace_indices: Any, out_sinfo: Any, tir_vars: Any = None) -> Call:
    """Like ``call_tir``; result ``i`` is written over argument ``inplace_indices[i]`` (-1: a new"""

@_operator
def call_tir_with_grad(gvar: GlobalVar, args: Any, out_sinfo: Any, te_grad_name: str, te_grad_kwargs: Any = None, tir_vars: Any = None) -> Call:
    """Like ``call_tir``, with the name of the function that computes the gradient."""

@_operator
def ceil(x: Any) -> Call:
    """the least integer not below x, elementwise."""

@_operator
def checked_lengths(lengths: Any, size: Any) -> Call:
    """The lengths of sequences in a tensor that has room for ``size`` elements of each"""

@_operator
def clip(x: Any, min: Any, max: Any) -> Call:
    """``x`` limited to the range from ``min`` to ``max``, elementwise."""

@_operator
def collapse_sum_like(data: Any, collapse_target: Any) -> Call:
    """``collapse_sum_to`` the shape of a tensor."""

@_operator
def collapse_sum_to(data: Any, shape: Any) -> Call:
    """The sum over the axes that broadcasting to ``data`` repeats: the result has ``shape``."""

@_operator
def concat(tensors: Any, axis: Any = 0) -> Call:
    """Tensors one after the other along an axis."""

@_operator
def cos(x: Any) -> Call:
    """cosine, elementwise."""

@_operator
def cosh(x: Any) -> Call:
    """hyperbolic cosine, elementwise."""

@_operator
def cumprod(data: Any, axis: Any = None, dtype: Any = None, exclusive: Any = False) -> Call:
    """The product of the elements up to each one along an axis (of all in a row without ``axis``)."""

@_operator
def cumsum(data: Any, axis: Any = None, dtype: Any = None, exclusive: Any = False) -> Call:
    """The sum of the elements up to each one along an axis (of all in a row without ``axis``)."""

@_operator
def dense(data: Any, weight: Any, out_dtype: Any = None) -> Call:
    """``data @ weight.T`` as one operator; the weight is (outputs, inputs)."""

@_operator
def dequantize(data: Any, scale: Any, zero_point: Any, axis: Any = -1, out_dtype: Any = 'float32') -> Call:
    """``(data - zero_point) * scale``."""

@_operator
def divide(x1: Any, x2: Any) -> Call:
    """x1 / x2 (integers round toward zero), elementwise with broadcasting."""

@_operator
def dynamic_strided_slice(x: Any, begin: Any, end: Any, strides: Any) -> Call:
    """Like ``strided_slice`` over all axes, with bounds that are tensors."""

@_operator
def einsum(operands: Any, subscripts: Any) -> Call:
    """Einstein's sum: ``einsum((a, b), "ij,jk->ik")``."""

@_operator
def ensure_zero_offset(data: Any) -> Call:
    """A tensor whose data starts where its memory starts."""

@_operator
def equal(x1: Any, x2: Any) -> Call:
    """x1 == x2, elementwise with broadcasting."""

@_operator
def erf(x: Any) -> Call:
    """the error function, elementwise."""

@_operator
def ewise_fma(x1: Any, x2: Any, x3: Any) -> Call:
    """``x1 * x2 + x3``, elementwise."""

@_operator
def exp(x: Any) -> Call:
    """e to the power x, elementwise."""

@_operator
def expand_dims(x: Any, axis: Any) -> Call:
    """New axes of size 1 at these places of the result."""

@_operator
def fixed_point_requantize(data: Any, multiplier: Any, shift: Any, in_zero_point: Any, out_zero_point: Any, rounding: Any = 'UPWARD', out_dtype: Any = 'int8') -> Call:
    """``clamp(round((data - in_zero_point) * multiplier * 2**(shift - 31)) + out_zero_point)``, in 64-bit integers. The parameters broadcast with data; shifts are below 31. Halves go up (``rounding="UPWARD"``) or away from zero ("TONEAREST")."""

@_operator
def flatten(x: Any) -> Call:
    """All elements in one axis."""

@_operator
def flip(data: Any, axis: Any) -> Call:
    """The elements along an axis in reverse order."""

@_operator
def floor(x: Any) -> Call:
    """the greatest integer not above x, elementwise."""

@_operator
def floor_divide(x1: Any, x2: Any) -> Call:
    """x1 / x2 rounded down, elementwise with broadcasting."""

@_operator
def floor_mod(x1: Any, x2: Any) -> Call:
    """remainder with the sign of x2, elementwise with broadcasting."""

@_operator
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Call:
    """Return a tensor whose elements all have one value."""

@_operator
def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Call:
    """Return ``full`` in the shape of ``x``."""

@_operator
def gather_elements(data: Any, indices: Any, axis: Any = 0) -> Call:
    """For each place of ``indices`` the element of ``data`` whose index along ``axis`` stands there."""

@_operator
def gather_nd(data: Any, indices: Any, batch_dims: Any = 0) -> Call:
    """The parts of ``data`` at places whose indices are the last axis of ``indices``."""

@_operator
def greater(x1: Any, x2: Any) -> Call:
    """x1 > x2, elementwise with broadcasting."""

@_operator
def greater_equal(x1: Any, x2: Any) -> Call:
    """x1 >= x2, elementwise with broadcasting."""

@_operator
def hint_on_device(data: Any, dst_vdevice: Any) -> Call:
    """Say on which device a value should be computed."""

@_operator
def invoke_closure(closure: Any, args: Any, sinfo_args: Any) -> Call:
    """Call a closure with the rest of its arguments."""

@_operator
def invoke_pure_closure(closure: Any, args: Any, sinfo_args: Any) -> Call:
    """Call a closure that has no effects."""

@_operator
def isfinite(x: Any) -> Call:
    """x is finite, elementwise."""

@_operator
def isinf(x: Any) -> Call:
    """x is infinite, elementwise."""

@_operator
def isnan(x: Any) -> Call:
    """x is not a number, elementwise."""

@_operator
def layout_transform(x: Any, index_map: Any, pad_value: Any = None, axis_separators: Any = None, input_axis_separators: Any = None) -> Call:
    """Move the elements of ``x`` by an index map: ``layout_transform(x, lambda i, j: (j, i))``."""

@_operator
def left_shift(x1: Any, x2: Any) -> Call:
    """x1 << x2, elementwise with broadcasting."""

@_operator
def less(x1: Any, x2: Any) -> Call:
    """x1 < x2, elementwise with broadcasting."""

@_operator
def less_equal(x1: Any, x2: Any) -> Call:
    """x1 <= x2, elementwise with broadcasting."""

def linear(data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Call:
    """Return ``data @ weight.T + bias``."""

@_operator
def log(x: Any) -> Call:
    """natural logarithm, elementwise."""

@_operator
def logical_and(x1: Any, x2: Any) -> Call:
    """x1 and x2, elementwise with broadcasting."""

@_operator
def logical_not(x: Any) -> Call:
    """not x, elementwise."""

@_operator
def logical_or(x1: Any, x2: Any) -> Call:
    """x1 or x2, elementwise with broadcasting."""

@_operator
def logical_xor(x1: Any, x2: Any) -> Call:
    """x1 or x2, not both, elementwise with broadcasting."""

@_operator
def make_closure(func: Any, args: Any) -> Call:
    """Make a closure: a function with its first arguments fixed."""

def masked_fill(x: Any, mask: Any, value: Any) -> Call:
    """Return ``value`` where the mask holds, else ``x``."""

@_operator
def matmul(x1: Any, x2: Any, out_dtype: Any = None) -> Call:
    """The matrix product by numpy's rule: leading axes broadcast, vectors count as row or column."""

@_operator
def max(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The largest value over ``axis`` (an axis, several, or all of them)."""

@_operator
def maximum(x1: Any, x2: Any) -> Call:
    """the larger one, elementwise with broadcasting."""

@_operator
def mean(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The mean over ``axis`` (an axis, several, or all of them)."""

@_operator
def min(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The smallest value over ``axis`` (an axis, several, or all of them)."""

@_operator
def minimum(x1: Any, x2: Any) -> Call:
    """the smaller one, elementwise with broadcasting."""

@_operator
def mod(x1: Any, x2: Any) -> Call:
    """remainder with the sign of x1, elementwise with broadcasting."""

@_operator
def multinomial_from_uniform(prob: Any, uniform_sample: Any, sample_indices: Any, dtype: Any = 'int64') -> Call:
    """For each number of ``uniform_sample`` (n, 1) a class, drawn from the distribution"""

@_operator
def multiply(x1: Any, x2: Any) -> Call:
    """x1 * x2, elementwise with broadcasting."""

@_operator
def negative(x: Any) -> Call:
    """-x, elementwise."""

@_operator
def nonzero(x: Any) -> Call:
    """The indices of the elements that are not 0, one row per axis."""

@_operator
def not_equal(x1: Any, x2: Any) -> Call:
    """x1 != x2, elementwise with broadcasting."""

@_operator
def null_value() -> Call:
    """The absence of a value."""

@_operator
def one_hot(indices: Any, on_value: Any, off_value: Any, depth: Any, axis: Any = -1, dtype: Any = 'float32') -> Call:
    """``on_value`` at the places that the indices name along a new axis, ``off_value``"""

@_operator
def ones(shape: Any, dtype: Any = 'float32') -> Call:
    """A tensor of ones."""

@_operator
def ones_like(x: Any, dtype: Any = None) -> Call:
    """A tensor of ones in the shape (and dtype) of ``x``."""

@_operator
def permute_dims(x: Any, axes: Any = None) -> Call:
    """``x`` with its axes in another order (reversed unless ``axes`` is given)."""

@_operator
def power(x1: Any, x2: Any) -> Call:
    """x1 to the power x2, elementwise with broadcasting."""

@_operator
def print(*values: Any, format: Any = '') -> Call:
    """Print values when the program runs, by a Python format string."""

@_operator
def prod(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The product over ``axis`` (an axis, several, or all of them)."""

@_operator
def quantize(data: Any, scale: Any, zero_point: Any, axis: Any = -1, out_dtype: Any = 'int8') -> Call:
    """``clamp(round(data / scale) + zero_point)``; scale and zero point of rank 0, or along ``axis``."""

def register_gradient(op_name: str, fgradient: Any = None, level: int = 10) -> Any:
    """Set the function that computes an operator's gradient; a decorator without ``fgradient``."""

@_operator
def reinterpret(x: Any, dtype: Any) -> Call:
    """The bits of ``x``, read as another dtype of the same size, elementwise."""

@_operator
def relu(data: Any) -> Call:
    """max(x, 0), elementwise."""

@_operator
def repeat(data: Any, repeats: Any, axis: Any = None) -> Call:
    """Each element so many times along an axis (of the flattened tensor without ``axis``)."""

@_operator
def reshape(x: Any, shape: Any) -> Call:
    """Reshape ``x`` with elements in the same order; -1 stands for the remaining size, 0 for the"""

@_operator
def right_shift(x1: Any, x2: Any) -> Call:
    """x1 >> x2, elementwise with broadcasting."""

@_operator
def round(x: Any) -> Call:
    """the nearest integer, halves to even, elementwise."""

@_operator
def rsqrt(x: Any) -> Call:
    """1 / sqrt(x), elementwise."""

@_operator
def scatter_elements(data: Any, indices: Any, updates: Any, axis: Any = 0, reduction: Any = 'update') -> Call:
    """``data`` with ``updates`` at the places that ``indices`` give along an axis."""

@_operator
def scatter_nd(data: Any, indices: Any, updates: Any, reduction: Any = 'update') -> Call:
    """``data`` with ``updates`` at places whose indices are the last axis of ``indices``."""

@_operator
def shape_of(expr: Any) -> Call:
    """The shape of a tensor as a value."""

@_operator
def shape_to_tensor(expr: Any) -> Call:
    """A shape as a vector of int64."""

@_operator
def sigmoid(x: Any) -> Call:
    """1 / (1 + exp(-x)), elementwise."""

@_operator
def sign(x: Any) -> Call:
    """-1, 0 or 1 by the sign of x, elementwise."""

@_operator
def sin(x: Any) -> Call:
    """sine, elementwise."""

@_operator
def sinh(x: Any) -> Call:
    """hyperbolic sine, elementwise."""

@_operator
def sort(x: Any, axis: Any = -1, descending: Any = False) -> Call:
    """The elements in order along an axis."""

@_operator
def split(x: Any, indices_or_sections: Any, axis: Any = 0) -> Call:
    """A tuple of parts along an axis: so many, or divided at these indices."""

@_operator
def sqrt(x: Any) -> Call:
    """square root, elementwise."""

@_operator
def square(x: Any) -> Call:
    """x * x, elementwise."""

@_operator
def squeeze(x: Any, axis: Any = None) -> Call:
    """``x`` without these axes of size 1 (all of them unless ``axis`` is given)."""

@_operator
def stack(tensors: Any, axis: Any = 0) -> Call:
    """Tensors of one shape along a new axis."""

@_operator
def std(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The standard deviation over ``axis`` (an axis, several, or all of them)."""

@_operator
def strided_slice(x: Any, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: Any = False) -> Call:
    """The part of ``x`` from ``begin`` to before ``end`` along each of ``axes``."""

@_operator
def subtract(x1: Any, x2: Any) -> Call:
    """x1 - x2, elementwise with broadcasting."""

@_operator
def sum(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The sum over ``axis`` (an axis, several, or all of them)."""

@_operator
def take(x: Any, indices: Any, axis: Any = None, mode: Any = 'fast') -> Call:
    """The parts of ``x`` at ``indices`` along an axis. Negative indices count from the end; one that is out of range is an error when the program runs, unless ``mode`` is "clip" or "wrap"."""

@_operator
def tan(x: Any) -> Call:
    """tangent, elementwise."""

@_operator
def tanh(x: Any) -> Call:
    """hyperbolic tangent, elementwise."""

@_operator
def tensor_to_shape(expr: Any) -> Call:
    """A vector of integers as a shape."""

@_operator
def tile(data: Any, repeats: Any) -> Call:
    """The whole tensor so many times along each axis."""

@_operator
def to_vdevice(data: Any, dst_vdevice: Any) -> Call:
    """A copy of a tensor on another device."""

@_operator
def topk(data: Any, k: Any = 1, axis: Any = -1, ret_type: Any = 'both', largest: Any = True, dtype: Any = 'int32') -> Call:
    """The ``k`` largest (smallest) elements along an axis: values, indices, or a tuple of both."""

@_operator
def tril(x: Any, k: Any = 0) -> Call:
    """The lower triangle of matrices, zeros elsewhere; ``k`` is the diagonal's number."""

@_operator
def triu(x: Any, k: Any = 0) -> Call:
    """The upper triangle of matrices, zeros elsewhere; ``k`` is the diagonal's number."""

@_operator
def trunc(x: Any) -> Call:
    """x rounded toward zero, elementwise."""

@_operator
def unique(x: Any, sorted: Any = True, return_index: Any = False, return_inverse: Any = False, return_counts: Any = False, axis: Any = None) -> Call:
    """The values that occur (of ``axis``: the slices), in ascending order, also without"""

@_operator
def variance(x: Any, axis: Any = None, keepdims: Any = False) -> Call:
    """The variance over ``axis`` (an axis, several, or all of them)."""

@_operator
def view(data: Any, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> Call:
    """Return a view of a tensor's memory with another shape and dtype."""

@_operator
def where(condition: Any, x1: Any, x2: Any) -> Call:
    """Return ``x1`` where the condition holds, else ``x2``, elementwise with broadcasting."""

@_operator
def wrap_param(data: Any, dtype: Any = 'float32') -> Call:
    """A parameter of the model converted to a dtype, elementwise."""

@_operator
def zeros(shape: Any, dtype: Any = 'float32') -> Call:
    """A tensor of zeros."""

@_operator
def zeros_like(x: Any, dtype: Any = None) -> Call:
    """A tensor of zeros in the shape (and dtype) of ``x``."""
