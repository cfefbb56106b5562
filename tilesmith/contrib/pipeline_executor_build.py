"""``contrib.pipeline_executor_build``: building pipelines, under the name of its module."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
