"""Computes of neural networks."""

from tilesmith.topi.nn.attention import *  # noqa: F403
from tilesmith.topi.nn.conv2d import *  # noqa: F403
from tilesmith.topi.nn.dense import *  # noqa: F403
from tilesmith.topi.nn.elemwise import *  # noqa: F403
from tilesmith.topi.nn.loss import *  # noqa: F403
from tilesmith.topi.nn.normalization import *  # noqa: F403
from tilesmith.topi.nn.packed import *  # noqa: F403
from tilesmith.topi.nn.pad import *  # noqa: F403
from tilesmith.topi.nn.pooling import *  # noqa: F403
from tilesmith.topi.nn.quantization import *  # noqa: F403
