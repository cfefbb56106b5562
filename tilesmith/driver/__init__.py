"""Whole models: graph pipeline, choice of schedules, workers, caches."""

from tilesmith.driver.model import compile, import_model
from tilesmith.driver.pipelines import get_pipeline, register_pipeline
from tilesmith.driver.relax_build import build
from tilesmith.driver.stages import STAGES, stages

__all__ = [
    "STAGES",
    "build",
    "compile",
    "get_pipeline",
    "import_model",
    "register_pipeline",
    "stages",
]
