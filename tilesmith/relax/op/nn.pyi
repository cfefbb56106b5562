"""Made by tools/write_stubs.py from the records of operators; do not edit."""
# fmt: off

from tilesmith.relax.expr import Call as Call
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
def adaptive_avg_pool1d(data: Any, output_size: Any = None, layout: Any = 'NCW', out_layout: Any = None) -> Call:
    """The mean value of equal parts: as many along each axis as ``output_size`` says."""

@_operator
def adaptive_avg_pool2d(data: Any, output_size: Any = None, layout: Any = 'NCHW', out_layout: Any = None) -> Call:
    """The mean value of equal parts: as many along each axis as ``output_size`` says."""

@_operator
def adaptive_avg_pool3d(data: Any, output_size: Any = None, layout: Any = 'NCDHW', out_layout: Any = None) -> Call:
    """The mean value of equal parts: as many along each axis as ``output_size`` says."""

@_operator
def adaptive_max_pool1d(data: Any, output_size: Any = None, layout: Any = 'NCW', out_layout: Any = None) -> Call:
    """The largest value of equal parts: as many along each axis as ``output_size`` says."""

@_operator
def adaptive_max_pool2d(data: Any, output_size: Any = None, layout: Any = 'NCHW', out_layout: Any = None) -> Call:
    """The largest value of equal parts: as many along each axis as ``output_size`` says."""

@_operator
def adaptive_max_pool3d(data: Any, output_size: Any = None, layout: Any = 'NCDHW', out_layout: Any = None) -> Call:
    """The largest value of equal parts: as many along each axis as ``output_size`` says."""

@_operator
def attention(query: Any, key: Any, value: Any, bias: Any = None, scale: Any = None, causal_mask: Any = None, window_size: Any = None) -> Call:
    """Scaled dot-product attention of tensors (batch, sequence, heads, head size)."""

@_operator
def attention_var_len(queries: Any, keys: Any, values: Any, seqstart_q: Any, max_seqlen_q: Any, seqstart_k: Any = None, max_seqlen_k: Any = None, scale: float | None = None, causal_mask: str | None = None, window_size: int | None = None) -> Call:
    """Scaled dot-product attention within each of several sequences, which lie one behind the other"""

@_operator
def avg_pool1d(data: Any, pool_size: Any = (1,), strides: Any = (1,), padding: Any = (0, 0), dilation: Any = (1,), ceil_mode: Any = False, count_include_pad: Any = False, layout: Any = 'NCW', out_layout: Any = None) -> Call:
    """The mean value of each window over 1 spatial dimension."""

@_operator
def avg_pool2d(data: Any, pool_size: Any = (1, 1), strides: Any = (1, 1), padding: Any = (0, 0, 0, 0), dilation: Any = (1, 1), ceil_mode: Any = False, count_include_pad: Any = False, layout: Any = 'NCHW', out_layout: Any = None) -> Call:
    """The mean value of each window over 2 spatial dimensions."""

@_operator
def avg_pool3d(data: Any, pool_size: Any = (1, 1, 1), strides: Any = (1, 1, 1), padding: Any = (0, 0, 0, 0, 0, 0), dilation: Any = (1, 1, 1), ceil_mode: Any = False, count_include_pad: Any = False, layout: Any = 'NCDHW', out_layout: Any = None) -> Call:
    """The mean value of each window over 3 spatial dimensions."""

@_operator
def batch_flatten(data: Any) -> Call:
    """All axes but the first in one."""

@_operator
def batch_norm(data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any, axis: Any = 1, epsilon: Any = 1e-05, center: Any = True, scale: Any = True, momentum: Any = 0.1, training: Any = False) -> Call:
    """``(data - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta`` by axis."""

@_operator
def conv1d(data: Any, weight: Any, strides: Any = (1,), padding: Any = (0, 0), dilation: Any = (1,), groups: Any = 1, data_layout: Any = 'NCW', kernel_layout: Any = 'OIW', out_layout: Any = None, out_dtype: Any = None) -> Call:
    """Convolution along one axis: data (N, C, W), weight (O, I, W) unless the layouts differ."""

@_operator
def conv1d_transpose(data: Any, weight: Any, strides: Any = (1,), padding: Any = (0, 0), output_padding: Any = (0,), dilation: Any = (1,), groups: Any = 1, data_layout: Any = 'NCW', kernel_layout: Any = 'IOW', out_layout: Any = None, out_dtype: Any = None) -> Call:
    """Transposed convolution along one axis; weight (I, O, W)."""

@_operator
def conv2d(data: Any, weight: Any, strides: Any = (1, 1), padding: Any = (0, 0, 0, 0), dilation: Any = (1, 1), groups: Any = 1, data_layout: Any = 'NCHW', kernel_layout: Any = 'OIHW', out_layout: Any = None, out_dtype: Any = None) -> Call:
    """Convolution along two axes: data (N, C, H, W), weight (O, I, H, W) unless the layouts differ."""

@_operator
def conv2d_transpose(data: Any, weight: Any, strides: Any = (1, 1), padding: Any = (0, 0, 0, 0), output_padding: Any = (0, 0), dilation: Any = (1, 1), groups: Any = 1, data_layout: Any = 'NCHW', kernel_layout: Any = 'IOHW', out_layout: Any = None, out_dtype: Any = None) -> Call:
    """Transposed convolution along two axes; weight (I, O, H, W)."""

@_operator
def conv3d(data: Any, weight: Any, strides: Any = (1, 1, 1), padding: Any = (0, 0, 0, 0, 0, 0), dilation: Any = (1, 1, 1), groups: Any = 1, data_layout: Any = 'NCDHW', kernel_layout: Any = 'OIDHW', out_layout: Any = None, out_dtype: Any = None) -> Call:
    """Convolution along three axes: data (N, C, D, H, W), weight (O, I, D, H, W) unless the layouts differ."""

@_operator
def conv3d_transpose(data: Any, weight: Any, strides: Any = (1, 1, 1), padding: Any = (0, 0, 0, 0, 0, 0), output_padding: Any = (0, 0, 0), dilation: Any = (1, 1, 1), groups: Any = 1, data_layout: Any = 'NCDHW', kernel_layout: Any = 'IODHW', out_layout: Any = None, out_dtype: Any = None) -> Call:
    """Transposed convolution along three axes; weight (I, O, D, H, W)."""

@_operator
def cross_entropy_with_logits(predictions: Any, labels: Any) -> Call:
    """Minus the mean over the batch of the sums of ``predictions * labels``."""

@_operator
def dense(data: Any, weight: Any, out_dtype: Any = None) -> Call:
    """``data @ weight.T`` as one operator; the weight is (outputs, inputs)."""

@_operator
def dropout(data: Any, rate: Any = 0.5) -> Call:
    """A tuple of ``data`` (at inference nothing is dropped) and the mask (ones)."""

@_operator
def gelu(data: Any) -> Call:
    """x times the normal distribution at x, elementwise."""

@_operator
def gelu_tanh(data: Any) -> Call:
    """gelu approximated with tanh, elementwise."""

@_operator
def group_norm(data: Any, gamma: Any, beta: Any, num_groups: Any, channel_axis: Any, axes: Any, epsilon: Any = 1e-05, center: Any = True, scale: Any = True) -> Call:
    """``data`` normalised in groups of channels, over each group and ``axes``."""

@_operator
def instance_norm(data: Any, gamma: Any, beta: Any, channel_axis: Any, axes: Any, epsilon: Any = 1e-05) -> Call:
    """``data`` normalised over ``axes`` for each channel and item of the batch."""

@_operator
def layer_norm(data: Any, gamma: Any, beta: Any, axes: Any = (-1,), epsilon: Any = 1e-05, center: Any = True, scale: Any = True) -> Call:
    """``data`` with mean 0 and variance 1 over ``axes``, times ``gamma`` plus ``beta``."""

@_operator
def leakyrelu(data: Any, alpha: Any = 0.01) -> Call:
    """``data`` where positive, else ``alpha * data``, elementwise."""

@_operator
def log_softmax(data: Any, axis: Any = -1) -> Call:
    """The logarithm of ``softmax``."""

@_operator
def lrn(data: Any, size: Any = 5, axis: Any = 1, bias: Any = 1.0, alpha: Any = 0.0001, beta: Any = 0.75) -> Call:
    """Local response normalisation: each channel divided by a power of the squares around it."""

@_operator
def max_pool1d(data: Any, pool_size: Any = (1,), strides: Any = (1,), padding: Any = (0, 0), dilation: Any = (1,), ceil_mode: Any = False, count_include_pad: Any = False, layout: Any = 'NCW', out_layout: Any = None) -> Call:
    """The largest value of each window over 1 spatial dimension."""

@_operator
def max_pool2d(data: Any, pool_size: Any = (1, 1), strides: Any = (1, 1), padding: Any = (0, 0, 0, 0), dilation: Any = (1, 1), ceil_mode: Any = False, count_include_pad: Any = False, layout: Any = 'NCHW', out_layout: Any = None) -> Call:
    """The largest value of each window over 2 spatial dimensions."""

@_operator
def max_pool3d(data: Any, pool_size: Any = (1, 1, 1), strides: Any = (1, 1, 1), padding: Any = (0, 0, 0, 0, 0, 0), dilation: Any = (1, 1, 1), ceil_mode: Any = False, count_include_pad: Any = False, layout: Any = 'NCDHW', out_layout: Any = None) -> Call:
    """The largest value of each window over 3 spatial dimensions."""

@_operator
def nll_loss(predictions: Any, targets: Any, weights: Any = None, reduction: Any = 'mean', ignore_index: Any = -100) -> Call:
    """The negative log-likelihood loss; ``reduction`` is "mean", "sum" or "none"."""

@_operator
def pad(data: Any, pad_width: Any, pad_value: Any = 0, pad_mode: str = 'constant') -> Call:
    """Pad ``data`` at both ends of each axis; negative widths remove elements."""

@_operator
def prelu(data: Any, alpha: Any, axis: Any = 1) -> Call:
    """``data`` where positive, else times ``alpha``, a vector along ``axis``."""

@_operator
def relu(data: Any) -> Call:
    """max(x, 0), elementwise."""

@_operator
def rms_norm(data: Any, weight: Any, axes: Any = (-1,), epsilon: Any = 1e-05) -> Call:
    """``data`` divided by the root of its mean square over ``axes``, times ``weight``."""

@_operator
def silu(data: Any) -> Call:
    """x * sigmoid(x), elementwise."""

@_operator
def softmax(data: Any, axis: Any = -1) -> Call:
    """``exp(data)`` divided by its sum along ``axis``."""
