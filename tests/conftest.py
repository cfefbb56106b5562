"""What holds for every test: no disk caches, two threads at most, checked schedules,
reproducible property tests."""

import os

from hypothesis import HealthCheck, settings

# Set before any module of the product reads them.
os.environ.setdefault("TILESMITH_CACHE", "0")
os.environ.setdefault("TILESMITH_NUM_THREADS", "2")
os.environ.setdefault("TILESMITH_CHECK_SCHEDULES", "1")

from tilesmith.ir.operators import check_truth_of_equality
from tilesmith.support.lazy import check_doors

# Doors are for users, and an expression's `==` has a truth only for them.
check_doors(True)
check_truth_of_equality(True)

settings.register_profile(
    "tilesmith",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tilesmith")
