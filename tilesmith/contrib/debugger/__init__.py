"""``contrib.debugger``: runs compiled programs node by node and shows what each node does."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "debug_executor": "tilesmith.contrib.debugger.debug_executor",
        "debug_result": "tilesmith.contrib.debugger.debug_result",
    },
)
