"""Operators of neural networks."""

from tilesmith.topi.nn.attention import *  # noqa: F403
from tilesmith.topi.nn.bnn import *  # noqa: F403
from tilesmith.topi.nn.conv_layouts import *  # noqa: F403
from tilesmith.topi.nn.convolution import *  # noqa: F403
from tilesmith.topi.nn.correlation import *  # noqa: F403
from tilesmith.topi.nn.deformable_conv2d import *  # noqa: F403
from tilesmith.topi.nn.dense import *  # noqa: F403
from tilesmith.topi.nn.depthwise_conv2d import *  # noqa: F403
from tilesmith.topi.nn.dilate import *  # noqa: F403
from tilesmith.topi.nn.elemwise import *  # noqa: F403
from tilesmith.topi.nn.loss import *  # noqa: F403
from tilesmith.topi.nn.mapping import *  # noqa: F403
from tilesmith.topi.nn.normalization import *  # noqa: F403
from tilesmith.topi.nn.packed import *  # noqa: F403
from tilesmith.topi.nn.pad import *  # noqa: F403
from tilesmith.topi.nn.pool_grad import *  # noqa: F403
from tilesmith.topi.nn.pooling import *  # noqa: F403
from tilesmith.topi.nn.quantization import *  # noqa: F403
from tilesmith.topi.nn.space_to_batch_nd import *  # noqa: F403
from tilesmith.topi.nn.space_to_depth import *  # noqa: F403
from tilesmith.topi.nn.upsampling import *  # noqa: F403
from tilesmith.topi.nn.utils import *  # noqa: F403
