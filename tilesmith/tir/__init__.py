"""TensorIR: statements, buffers, functions, their analysis, transformation and interpretation."""

from tilesmith.ir.expr import *  # noqa: F403
from tilesmith.ir.operators import const
from tilesmith.tir.buffer import *  # noqa: F403
from tilesmith.tir.expr import *  # noqa: F403
from tilesmith.tir.function import *  # noqa: F403
from tilesmith.tir.functor import ir_transform, post_order_visit, pre_order_visit, substitute
from tilesmith.tir.op import *  # noqa: F403
from tilesmith.tir.stmt import *  # noqa: F403
