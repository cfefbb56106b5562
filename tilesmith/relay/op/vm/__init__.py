"""``relay.op.vm``: operators by which programs call kernels that write to memory."""

from tilesmith.relay.op.vm import vm
from tilesmith.relay.op.vm.vm import invoke_tvm_op, reshape_tensor, shape_func, shape_of

__all__ = ["invoke_tvm_op", "reshape_tensor", "shape_func", "shape_of", "vm"]
