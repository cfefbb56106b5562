"""What operators mean, written in numpy as plainly as possible: references for users' tests.

Nothing here is compiled, and nothing of Tilesmith's computes is used.
"""

from tilesmith.topi.testing.common import *  # noqa: F403
from tilesmith.topi.testing.convolution import *  # noqa: F403
from tilesmith.topi.testing.moving import *  # noqa: F403
from tilesmith.topi.testing.normalization import *  # noqa: F403
from tilesmith.topi.testing.pooling import *  # noqa: F403
from tilesmith.topi.testing.products import *  # noqa: F403
from tilesmith.topi.testing.regions import *  # noqa: F403
from tilesmith.topi.testing.resize import *  # noqa: F403
from tilesmith.topi.testing.sampling import *  # noqa: F403
