"""Modules of C source that others wrote: code generators of parts of a model.

    module = c_source_module(code, "c", ["subgraph_0"])

A function NAME is the symbol `int32_t __tvm_ffi_NAME(void* self, const TVMFFIAny* args, int32_t
num_args, TVMFFIAny* result)`, as everywhere; `PACKED_INTERFACE` declares what it needs in C, and
`packed_wrapper` writes it for a function of plain pointers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.codegen.c.helpers import FFI_TYPES
from tilesmith.codegen.c_compiler import compile_source, missing_compiler
from tilesmith.contrib.cc import get_cc
from tilesmith.contrib.cplusplus import compile_cplusplus, link_cplusplus
from tilesmith.runtime.library import Library
from tilesmith.runtime.module import Module
from tilesmith.runtime.packed_func import convert_to_packed
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target

__all__ = ["PACKED_INTERFACE", "c_source_module", "packed_wrapper"]

PACKED_INTERFACE = (
    FFI_TYPES
    + """\
#ifdef __cplusplus
#define TS_C extern "C"
#else
#define TS_C extern
#endif
TS_C void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
static void* ts_data(const TsAny* argument) {
  TsTensor* tensor = (TsTensor*)argument->v.p;
  if (argument->type_index == 70) tensor = (TsTensor*)((char*)argument->v.p + 24);
  else if (argument->type_index != 7) return 0;
  return (char*)tensor->data + tensor->byte_offset;
}
"""
)


def packed_wrapper(name: str, function: str, types: Sequence[str]) -> str:
    """Return C that lets callers reach ``int function(T0*, T1*, …)`` as the packed function
    ``name``.
    """
    lines = [
        f"TS_C int32_t __tvm_ffi_{name}(void* self, const TsAny* args, int32_t count, "
        "TsAny* result);",
        f"int32_t __tvm_ffi_{name}(void* self, const TsAny* args, int32_t count, TsAny* result) {{",
        "  (void)self; (void)result;",
        f"  if (count != {len(types)}) {{",
        f'    TVMFFIErrorSetRaisedFromCStr("TypeMismatchError", "{name}: expected {len(types)} '
        'tensors");',
        "    return -1;",
        "  }",
        f"  for (int32_t i = 0; i < {len(types)}; ++i) if (!ts_data(args + i)) {{",
        f'    TVMFFIErrorSetRaisedFromCStr("TypeMismatchError", "{name}: an argument is no '
        'tensor");',
        "    return -1;",
        "  }",
    ]
    words = [f"({kind}*)ts_data(args + {place})" for place, kind in enumerate(types)]
    return "\n".join([*lines, f"  return {function}({', '.join(words)});", "}"]) + "\n"


@register_func("runtime.CSourceModuleCreate", override=True)
def c_source_module(
    code: str, fmt: str = "c", func_names: Sequence[str] = (), const_vars: Sequence[str] = ()
) -> Module:
    """Return a module of C source ("c"), compiled by the machine's compiler (or by zig's), or of
    C++ ("cc"), which becomes a shared library.

    ``func_names`` are its functions, ``const_vars`` the constants that ``__init_NAME`` is given.
    Without a compiler it is source only. Raises CodegenError where the compiler refuses the source.
    """
    if fmt not in ("c", "cc"):
        raise UnsupportedError(f"a module of source is written in 'c' or 'cc', not in '{fmt}'")
    target = Target("c")
    is_cc = fmt == "cc"
    advice = ("" if get_cc() else "install g++ or clang++") if is_cc else missing_compiler(target)
    if advice:
        record_fallback("code", f"the C source of {', '.join(func_names)}", advice)
    common: dict[str, Any] = {"function_names": list(func_names), "formats": {fmt: code}}
    if advice:
        module = Module("c", **common, runnable=False, advice=advice)
    elif is_cc:
        content = link_cplusplus([compile_cplusplus(code)], name=", ".join(func_names))
        library = Library.from_shared_bytes(content)
        module = Module("shared_library", library=library, saved=content, **common)
    else:
        module = Module("c", objects=[compile_source(code, target)], **common)
    if const_vars:
        names = [str(name) for name in const_vars]
        module.set_function("get_const_vars", convert_to_packed(lambda: names))
    return module
