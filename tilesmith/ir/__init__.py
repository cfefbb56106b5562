"""Defines what all levels share: nodes, scalar expressions, types, operators, modules, passes,
printing.
"""

from tilesmith.ir.calling_convention import *  # noqa: F403
from tilesmith.ir.expr import *  # noqa: F403
from tilesmith.ir.global_info import *  # noqa: F403
from tilesmith.ir.module import *  # noqa: F403
from tilesmith.ir.node import *  # noqa: F403
from tilesmith.ir.op import *  # noqa: F403
from tilesmith.ir.operators import const, is_const
from tilesmith.ir.serialization import *  # noqa: F403
from tilesmith.ir.span import *  # noqa: F403
from tilesmith.ir.structural import *  # noqa: F403
from tilesmith.ir.types import *  # noqa: F403
from tilesmith.ir.visitor import *  # noqa: F403
from tilesmith.support.lazy import lazy_attributes

_MEMORY_POOLS = (
    "AllocatedPoolInfo",
    "ConstantInfo",
    "ConstantMemoryPools",
    "ConstantPoolInfo",
    "PoolInfo",
    "PoolInfoProperties",
    "WorkspaceMemoryPools",
    "WorkspacePoolInfo",
)
__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        **{name: f"tilesmith.ir.memory_pools:{name}" for name in _MEMORY_POOLS},
        "AffineType": "tilesmith.ir.affine_type:AffineType",
        "Constructor": "tilesmith.ir.adt:Constructor",
        "EnvFunc": "tilesmith.ir.env_func:EnvFunc",
        "GlobalVarSupply": "tilesmith.ir.supply:GlobalVarSupply",
        "NameSupply": "tilesmith.ir.supply:NameSupply",
        "TensorAffineType": "tilesmith.ir.affine_type:TensorAffineType",
        "TensorType": "tilesmith.ir.tensor_type:TensorType",
        "TupleAffineType": "tilesmith.ir.affine_type:TupleAffineType",
        "TypeData": "tilesmith.ir.adt:TypeData",
        "TypeRelation": "tilesmith.ir.type_relation:TypeRelation",
        "analysis": "tilesmith.ir.analysis",
        "instrument": "tilesmith.ir.instrument",
        "transform": "tilesmith.ir.transform",
    },
)
