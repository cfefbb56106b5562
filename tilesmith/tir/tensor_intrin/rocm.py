"""Names of the intrinsics of AMD GPUs (a door to ``schedule_rules.intrinsics``)."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
