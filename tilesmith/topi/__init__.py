"""The inventory of operators as tensor expressions."""

from tilesmith.topi import nn, tag, utils
from tilesmith.topi.broadcast import *  # noqa: F403
from tilesmith.topi.math import *  # noqa: F403
from tilesmith.topi.nn.dense import matmul
from tilesmith.topi.reduction import *  # noqa: F403
from tilesmith.topi.transform import *  # noqa: F403
from tilesmith.topi.utils import (
    equal_const_int,
    get_const_int,
    get_const_tuple,
    ravel_index,
    simplify,
    unravel_index,
)
