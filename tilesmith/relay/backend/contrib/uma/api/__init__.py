"""The parts of a backend: partition, lowering, code."""

from tilesmith.relay.backend.contrib.uma.api.codegen import UMACodegen
from tilesmith.relay.backend.contrib.uma.api.lower import UMALower
from tilesmith.relay.backend.contrib.uma.api.partitioner import UMAPartitioner

__all__ = ["UMACodegen", "UMALower", "UMAPartitioner"]
