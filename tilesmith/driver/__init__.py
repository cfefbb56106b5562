"""Compilation of whole models: graph pipeline, choice of schedules, workers, caches."""

from tilesmith.driver.model import compile, import_model
from tilesmith.support.lazy import lazy_attributes

_LAZY = {
    "STAGES": "tilesmith.driver.stage_texts:STAGES",
    "build": "tilesmith.driver.relax_build:build",
    "get_pipeline": "tilesmith.driver.pipelines:get_pipeline",
    "register_pipeline": "tilesmith.driver.pipelines:register_pipeline",
    "stages": "tilesmith.driver.stage_texts:stages",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = ["compile", "import_model"]
