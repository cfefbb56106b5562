"""Imports PyTorch models as modules of the graph IR.

    from tilesmith.relax.frontend.torch import from_exported_program
    program = torch.export.export(model.eval(), (torch.randn(1, 3, 224, 224),))
    module = from_exported_program(program)

Where things are: ``exported_program_translator.py`` and ``fx_translator.py`` read what torch gives,
``base_fx_graph_translator.py`` walks the graph, ``node.py`` is what a converter sees of a call,
``ops/`` has the converters by family (``registry.py`` is their table), ``symbols.py`` turns torch's
sizes into the graph's, ``control.py`` has branches and loops, ``dynamo.py`` captures functions.
"""

from tilesmith.relax.frontend.torch.registry import supported_operators
from tilesmith.support.lazy import lazy_attributes

_HERE = "tilesmith.relax.frontend.torch"

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "dynamo_capture_subgraphs": f"{_HERE}.dynamo:dynamo_capture_subgraphs",
        "from_exported_program": (f"{_HERE}.exported_program_translator:from_exported_program"),
        "from_fx": f"{_HERE}.fx_translator:from_fx",
    },
)

__all__ = [
    "dynamo_capture_subgraphs",
    "from_exported_program",
    "from_fx",
    "relax_dynamo",
    "supported_operators",
]
