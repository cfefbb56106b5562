"""``relay.backend.graph_executor_codegen``: the graph executor's JSON of a function, under the name
of its module.
"""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
