"""Backends that a class declares: patterns, passes, operator strategies, code.

class Accelerator(UMABackend):
    def __init__(self):
        super().__init__()
        self._register_pattern("dense", is_op("nn.dense")(wildcard(), wildcard()))
        self._register_tir_pass(PassPhase.TIR_PHASE_0, use_my_unit)
        self._register_codegen(fmt="c", includes=lambda: '#include "my_unit.h"')

    @property
    def target_name(self):
        return "my_accelerator"

backend = Accelerator()
backend.register()
lib = relay.build(backend.partition(mod, params), Target("my_accelerator", host="llvm"))
"""

from tilesmith.relay.backend.contrib.uma.api.codegen import UMACodegen
from tilesmith.relay.backend.contrib.uma.api.lower import UMALower
from tilesmith.relay.backend.contrib.uma.api.partitioner import UMAPartitioner
from tilesmith.relay.backend.contrib.uma.api.utils import PassPhase, uma_available
from tilesmith.relay.backend.contrib.uma.backend import UMABackend

__all__ = [
    "PassPhase", "UMABackend", "UMACodegen", "UMALower", "UMAPartitioner", "uma_available",
]  # fmt: skip
