"""Faults planted in the compiler, for the server's option ``--patch``."""

import ctypes
import time

import numpy as np

from tilesmith.driver import model
from tilesmith.relax.frontend.onnx.importer import ONNXGraphImporter
from tilesmith.support.errors import FrontendError


def _instead(fault):
    def convert(self, node):
        return fault()

    ONNXGraphImporter.convert = convert


def crash():
    """Every node writes to address 0."""
    _instead(lambda: ctypes.memset(0, 1, 1))


def hang():
    """Every node takes for ever."""
    _instead(lambda: time.sleep(1000))


def spin():
    """Every node needs the processor for ever."""

    def forever():
        while True:
            pass

    _instead(forever)


def memory():
    """Importing wants more memory than there is."""
    model.import_model = lambda *_: np.ones(1 << 40)


def untyped():
    """Every node raises what the importer does not expect."""

    def fault():
        raise StopAsyncIteration("a bug")

    _instead(fault)


def vague():
    """Every node raises an error that the importer only wraps."""
    _instead(lambda: {}["missing"])


def typed():
    """Every node is refused."""

    def fault():
        raise FrontendError("refused")

    _instead(fault)


def wrong():
    """Every ReLU is a negation."""
    convert = ONNXGraphImporter.convert

    def changed(self, node):
        if node.operator == "Relu":
            node.operator = "Neg"
        return convert(self, node)

    ONNXGraphImporter.convert = changed
