"""Writes the header of a model that C programs call: plain functions of pointers and sizes.

    int32_t m_main(const float* x, float* output_0, int64_t n, const m_weights* weights,
                   void* workspace);

The header includes the C library's headers only, and is C99 and C++. Parameters are the bytes of a
safetensors file: the header knows where each constant begins, and that the file is the right one by
its size and a checksum of its head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["CFunction", "CParameter", "CWeights", "checksum", "header_text"]


@dataclass(frozen=True)
class CParameter:
    """A parameter of a C function: its declaration, and what it is."""

    declaration: str
    comment: str


@dataclass(frozen=True)
class CFunction:
    """A function to declare. ``sizes`` are the parameters of the function that computes sizes, if
    there is one, ``extents`` what it writes; ``workspace_bytes`` None: the last of these.
    """

    name: str
    symbol: str
    params: Sequence[CParameter]
    workspace_bytes: int | None
    sizes: Sequence[CParameter] = ()
    extents: Sequence[str] = field(default=())


@dataclass(frozen=True)
class CWeights:
    """The parameters of a model: the names, the places of the contents in the file, its size, and
    the size and the checksum of its head."""

    file: str
    names: Sequence[str]
    offsets: Sequence[int]
    nbytes: int
    head_bytes: int
    head_checksum: int
    is_embedded: bool


def checksum(data: bytes) -> int:
    """Return the FNV-1a checksum (64 bits), which the header computes in C."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return found


def header_text(
    prefix: str, functions: Sequence[CFunction], weights: CWeights | None, build: str, target: str
) -> str:
    """Return the header of a model whose names begin with ``prefix``; ``build`` says how to
    compile a program with it.
    """
    guard = f"{prefix.upper()}_H_"
    lines = [
        f"/* Made by Tilesmith, for the target {_shown(target)}. */",
        f"/* {build} */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stdbool.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        *(["#include <stdio.h>", "#include <stdlib.h>"] if weights is not None else []),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* Functions return 0, or another number after an error: its text, of this thread. */",
        f"const char* {prefix}_last_error(void);",
        "/* Lets so many threads run parallel loops; at first it is one. */",
        f"void {prefix}_set_threads(int32_t count);",
        "",
    ]
    if weights is not None:
        lines.append(_weights(prefix, weights))
    for function in functions:
        lines += _function(function)
    lines += ["#ifdef __cplusplus", "}", "#endif", f"#endif  /* {guard} */", ""]
    return "\n".join(lines)


def _function(function: CFunction) -> list[str]:
    lines = []
    macro = f"{function.symbol.upper()}_WORKSPACE_BYTES"
    if function.extents:
        listed = [f"     sizes[{k}]: {text}" for k, text in enumerate(function.extents)]
        lines += [
            f"/* Computes sizes that '{_shown(function.name)}' needs:",
            *listed[:-1],
            listed[-1] + " */",
            f"#define {function.symbol.upper()}_SIZES {len(function.extents)}",
            _declaration(f"{function.symbol}_sizes", function.sizes),
        ]
    if function.workspace_bytes:
        lines.append(f"#define {macro} {function.workspace_bytes}")
    lines.append(f"/* '{_shown(function.name)}'. Tensors are compact, in rows, and do not overlap;")
    lines.append("   but one that is only read may be given twice. */")
    return [*lines, _declaration(function.symbol, function.params), ""]


def _declaration(symbol: str, params: Sequence[CParameter]) -> str:
    if not params:
        return f"int32_t {symbol}(void);"
    rows = []
    for number, param in enumerate(params):
        comma = "," if number + 1 < len(params) else ");"
        rows.append(f"    {param.declaration}{comma}  /* {_shown(param.comment)} */")
    return f"int32_t {symbol}(\n" + "\n".join(rows)


def _shown(text: str) -> str:
    """Return a text that does not end a comment."""
    return text.replace("*/", "* /").replace("\n", " ").replace("\\", "/")


_WEIGHTS = """\
/* The addresses of the parameters' contents, each aligned to 64 bytes. */
typedef struct {
  const void* at[@COUNT@];@NAMES@
} @M@_weights;
#define @U@_WEIGHTS_BYTES @BYTES@

/* Takes parameters from the contents of '@FILE@', which are only read and have to stay.
   They begin at a multiple of 64. Returns 0; 1: another size; 2: wrongly aligned;
   3: another file. */
static inline int32_t @M@_use_weights(@M@_weights* weights, const void* contents, size_t bytes) {
  static const uint64_t offsets[@COUNT@] = {
      @OFFSETS@};
  const unsigned char* first = (const unsigned char*)contents;
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  if (bytes != @BYTES@) return 1;
  if (((uintptr_t)contents & 63) != 0) return 2;
  for (size_t place = 0; place < @HEAD@; ++place)
    sum = (sum ^ first[place]) * UINT64_C(0x100000001b3);
  if (sum != UINT64_C(@SUM@)) return 3;
  for (int number = 0; number < @COUNT@; ++number)
    weights->at[number] = first + offsets[number];
  return 0;
}
"""

_FROM_FILE = """
/* Reads the file into memory, which is to be freed at last: free(*memory). Returns as above;
   4: it cannot be read; 5: there is not enough memory. (Mapping the file needs no memory.) */
static inline int32_t @M@_load_weights(@M@_weights* weights, const char* path, void** memory) {
  int32_t status = 4;
  FILE* file = fopen(path, "rb");
  *memory = NULL;
  if (file == NULL) return status;
  unsigned char* all = (unsigned char*)malloc((size_t)@BYTES@ + 64);
  if (all == NULL) {
    status = 5;
  } else {
    unsigned char* first = all + (64 - ((uintptr_t)all & 63));
    size_t bytes = fread(first, 1, @BYTES@, file);
    if (bytes == @BYTES@ && fgetc(file) != EOF) ++bytes;
    status = @M@_use_weights(weights, first, bytes);
  }
  fclose(file);
  if (status == 0) *memory = all;
  else free(all);
  return status;
}
"""

_EMBEDDED = """
/* Takes the parameters that the program contains. */
extern const unsigned char @M@_embedded[@BYTES@];
static inline int32_t @M@_embedded_weights(@M@_weights* weights) {
  return @M@_use_weights(weights, @M@_embedded, @BYTES@);
}
"""


def _weights(prefix: str, weights: CWeights) -> str:
    names = "".join([f"\n  /* {k}: {_shown(name)} */" for k, name in enumerate(weights.names)])
    values = {
        "COUNT": str(len(weights.offsets)),
        "NAMES": names,
        "M": prefix,
        "U": prefix.upper(),
        "BYTES": str(weights.nbytes),
        "FILE": _shown(weights.file),
        "OFFSETS": ",\n      ".join([str(offset) for offset in weights.offsets]),
        "HEAD": str(weights.head_bytes),
        "SUM": f"0x{weights.head_checksum:016x}",
    }
    text = _WEIGHTS + (_EMBEDDED if weights.is_embedded else _FROM_FILE)
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
