"""``relay.quantize``: turns a network of floats into one of integers.

    with relay.quantize.qconfig(calibrate_mode="kl_divergence", weight_scale="max"):
        mod = relay.quantize.quantize(mod, params, dataset=batches)

`prerequisite_optimize` simplifies, `partition` marks what will be quantised, `annotate` puts a
simulated quantisation at each operand of a product, `calibrate` chooses their scales, `realize`
makes integers of them. `accuracy_by_layer` compares with the floats.
"""

from tilesmith.relay.quantize.accuracy import LayerAccuracy, accuracy_by_layer, accuracy_table
from tilesmith.relay.quantize.annotate import (
    QAnnotateExpr,
    annotate,
    attach_simulated_quantize,
    register_annotate_function,
)
from tilesmith.relay.quantize.calibrate import calibrate, collect_stats
from tilesmith.relay.quantize.config import (
    QAnnotateKind,
    QConfig,
    QuantizeContext,
    current_qconfig,
    kind2str,
    qconfig,
    quantize_context,
)
from tilesmith.relay.quantize.partition import (
    QPartitionExpr,
    partition,
    register_partition_function,
)
from tilesmith.relay.quantize.quantize import prerequisite_optimize, quantize
from tilesmith.relay.quantize.realize import realize

__all__ = [
    "LayerAccuracy", "QAnnotateExpr", "QAnnotateKind", "QConfig", "QPartitionExpr",
    "QuantizeContext", "accuracy_by_layer", "accuracy_table", "annotate",
    "attach_simulated_quantize", "calibrate", "collect_stats", "current_qconfig", "kind2str",
    "partition", "prerequisite_optimize", "qconfig", "quantize", "quantize_context", "realize",
    "register_annotate_function", "register_partition_function",
]  # fmt: skip
