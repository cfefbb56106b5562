"""Shared libraries of others as parts of a model: code that linking in the process cannot hold,
such as C++ with variables that end with the program.
"""

from __future__ import annotations

from tilesmith.runtime.external import READERS
from tilesmith.runtime.library import Library
from tilesmith.runtime.module import Module

__all__ = ["shared_library"]


@READERS.register("shared_library")
def shared_library(content: bytes) -> Module:
    """Return the functions of a shared library, given by its content, as a module that is saved
    with the model.
    """
    library = Library.from_shared_bytes(content)
    return Module("shared_library", library=library, saved=content)
