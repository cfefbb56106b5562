"""Imports frozen graphs of TensorFlow (1, or functions of 2 that were frozen), without TensorFlow.

mod, params = relay.frontend.from_tensorflow("frozen.pb", shape={"x": (1, 224, 224, 3)})
"""

from tilesmith.relay.frontend.tensorflow.importer import TF_DEFAULT_CONFIGS, from_tensorflow

__all__ = ["TF_DEFAULT_CONFIGS", "from_tensorflow"]
