"""Writes models as modules, as torch.nn does, and exports their methods to the graph IR.

    class Model(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(16, 4)

        def forward(self, x: nn.Tensor):
            return nn.op.relu(self.fc(x))

    module, params = Model().export_tvm({"forward": {"x": nn.spec.Tensor(["n", 16], "float32")}})

`core` has tensors, parameters and modules, `op` the operators, `modules` layers and states, `spec`
what describes the inputs of methods; `extern` brings code of others into a model, `llm` has the
pieces of language models.
"""

from tilesmith.relax.frontend.nn import op, spec
from tilesmith.relax.frontend.nn.core import (
    Effect,
    Module,
    ModuleList,
    Object,
    Parameter,
    Tensor,
    get_default_dtype,
    set_default_dtype,
    wrap_nested,
)
from tilesmith.relax.frontend.nn.exporter import Exporter, add_extern
from tilesmith.relax.frontend.nn.extern import ExternModule, ObjectModule, SourceModule
from tilesmith.relax.frontend.nn.modules import (
    GELU,
    Attention,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Embedding,
    GroupNorm,
    Identity,
    IOEffect,
    KVCache,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
    TimestepEmbedding,
    Timesteps,
)
from tilesmith.relax.frontend.nn.op import *  # noqa: F403 - nn.relu is nn.op.relu, as users know it
from tilesmith.relax.frontend.nn.subroutine import SubroutineMixin
from tilesmith.relax.frontend.nn.torch import TorchModule
from tilesmith.relax.frontend.nn.visitor import Mutator

__all__ = [
    "Attention", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "Effect", "Embedding", "Exporter",
    "ExternModule", "GELU", "GroupNorm", "IOEffect", "Identity", "KVCache", "LayerNorm", "Linear",
    "Module", "ModuleList", "Mutator", "ObjectModule", "Object", "Parameter", "RMSNorm", "ReLU",
    "SiLU", "SourceModule", "SubroutineMixin", "Tensor", "TimestepEmbedding", "Timesteps",
    "TorchModule", "add_extern", "get_default_dtype", "op", "set_default_dtype", "spec",
    "wrap_nested",
]  # fmt: skip
__all__ += op.__all__
