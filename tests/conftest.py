"""What holds for every test: no disk caches, two threads at most, reproducible property tests."""

import os

from hypothesis import HealthCheck, settings

# Set before any module of the product reads them.
os.environ.setdefault("TILESMITH_CACHE", "0")
os.environ.setdefault("TILESMITH_NUM_THREADS", "2")

settings.register_profile(
    "tilesmith",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tilesmith")
