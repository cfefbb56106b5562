"""Sorting by packed functions (`tvm.contrib.sort.argsort`), which take tensors and store into the
last ones.
"""

from tilesmith.runtime.libraries.sort import argsort, argsort_nms, sort, topk

__all__ = ["argsort", "argsort_nms", "sort", "topk"]
