"""Boards without an operating system: packages of programs in C (the Model Library Format).

    lib = relay.build(mod, "c", executor=Executor("aot", {"interface-api": "c"}),
                      runtime=Runtime("crt"), params=params)
    micro.export_model_library_format(lib, "model.tar")

The C files need the C library and nothing else. Projects around them, and sessions with boards, are
not made.
"""

from tilesmith.micro.model_library_format import (
    UnsupportedInModelLibraryFormatError,
    export_model_library_format,
)

__all__ = ["UnsupportedInModelLibraryFormatError", "export_model_library_format"]
