"""Compilation of whole models: graph pipeline, choice of schedules, workers, caches."""

from typing import TYPE_CHECKING

from tilesmith.support.lazy import lazy_attributes

if TYPE_CHECKING:
    from tilesmith.driver.model import compile, import_model

_LAZY = {
    "STAGES": "tilesmith.driver.stage_texts:STAGES",
    "build": "tilesmith.driver.relax_build:build",
    "compile": "tilesmith.driver.model:compile",
    "get_pipeline": "tilesmith.driver.pipelines:get_pipeline",
    "import_model": "tilesmith.driver.model:import_model",
    "register_pipeline": "tilesmith.driver.pipelines:register_pipeline",
    "stages": "tilesmith.driver.stage_texts:stages",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = ["compile", "import_model"]
