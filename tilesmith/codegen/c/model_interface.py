"""Writes what stands around a model's C code: the header that callers include, and its source.

    struct tvmgen_default_inputs { void* x; };
    struct tvmgen_default_outputs { void* output; };
    struct tvmgen_default_workspace_pools { void* sram; };
    int32_t tvmgen_default_run(struct tvmgen_default_inputs*, struct tvmgen_default_outputs*,
                               struct tvmgen_default_workspace_pools*);

Both are plain C99 (the header also C++) and include nothing but the C library's headers. The source
holds the constants, the memory that no pool of the caller provides, and the function that is
called. With the packed interface this function takes an array of arguments instead, as tvm-ffi
passes them: tensors, then the addresses of the pools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from tilesmith.codegen.c.dialect import C99, c_type, identifier
from tilesmith.codegen.c.helpers import FFI_TYPES
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.name_transforms import sanitize_name
from tilesmith.runtime.packed_elements import is_packed, pack
from tilesmith.support.errors import ConfigError

__all__ = [
    "RESERVED", "ModelInterface", "ModelTensor", "PlacedConstant", "interface_header",
    "model_prefix",
]  # fmt: skip

RESERVED = frozenset(
    "constants devices inputs map_inputs map_outputs outputs run workspace workspace_pools".split()
)
"""What follows the model's name in names of the interface."""

_ALIGNED = """#if defined(__GNUC__)
#define TS_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define TS_WEAK __attribute__((weak))
#else
#define TS_ALIGNED(bytes)
#define TS_WEAK
#endif
"""
_ERRORS = """
/* Gets the kind and the parts of the message of an error, before its code is returned. This one
   forgets them: define the function elsewhere to see them. */
TS_WEAK void TVMFFIErrorSetRaisedFromCStrParts(
    const char* kind, const char** parts, int32_t count) {
  (void)kind; (void)parts; (void)count;
}
TS_WEAK void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1);
}
TS_WEAK void TVMFFIErrorMoveFromRaised(void** place) { *place = NULL; }
TS_WEAK void TVMFFIErrorSetRaised(void* error) { (void)error; }
TS_WEAK int TVMFFIObjectDecRef(void* error) { (void)error; return 0; }
"""


@dataclass(frozen=True)
class ModelTensor:
    """An input or output: its name in the program and in C, and its type."""

    name: str
    member: str
    dtype: DataType
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True)
class PlacedConstant:
    """A constant, and where in its pool it begins."""

    name: str
    array: Any
    dtype: DataType
    byte_offset: int


@dataclass(frozen=True)
class ModelInterface:
    """How C code calls a model. ``main`` is the function that calls the kernels: it takes the
    tensors, then the memories by name: ``constants``, the caller's ``pools`` and the code's own
    ``workspaces`` (with their sizes). ``alignment`` is that of all of them.
    """

    module_name: str
    main: str
    inputs: Sequence[ModelTensor]
    outputs: Sequence[ModelTensor]
    memories: Sequence[str]
    constants: Mapping[str, Sequence[PlacedConstant]]
    pools: Mapping[str, int]
    workspaces: Mapping[str, int]
    alignment: int = 16
    is_packed: bool = False
    can_fail: bool = False
    """Whether the code reports errors by the functions of tvm-ffi."""
    devices: Sequence[str] = field(default=())
    io_places: Sequence[tuple[str, int]] = ()
    """Where inputs and outputs lie (a memory, an offset), if their memory is not the caller's."""

    @property
    def prefix(self) -> str:
        """The beginning of all names of this model."""
        return model_prefix(self.module_name)

    def header(self) -> str:
        """Return the text of the header."""
        tensors = [*self.inputs, *self.outputs]
        if self.is_packed:
            return _packed_header(self)
        return interface_header(
            self.module_name,
            [one.member for one in self.inputs],
            [one.member for one in self.outputs],
            self.pools,
            self.devices,
            sum(self.workspaces.values()) + sum(self.pools.values()),
            {one.member: one.nbytes for one in tensors},
            self.alignment,
            bool(self.io_places),
        )

    def source(self) -> str:
        """Return the text of the source file: constants, own memory, the function to call."""
        given = () if self.io_places else (*self.inputs, *self.outputs)
        tensors = [f"{c_type(one.dtype)}*" for one in given]
        memories = ["uint8_t*" for _ in self.memories]
        parts = [
            "/* Made by Tilesmith: how the model is called, and its constants. */",
            "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>",
            f'#include "{self.prefix}.h"\n',
            _ALIGNED,
            f"extern int32_t {self.main}({', '.join([*tensors, *memories]) or 'void'});",
            _ERRORS if self.can_fail else "",
            *[_constants(self, name, held) for name, held in self.constants.items()],
            *[
                f"static uint8_t {self.prefix}_{identifier(name)}[{max(1, size)}] "
                f"TS_ALIGNED({self.alignment});\n"
                for name, size in self.workspaces.items()
            ],
            _packed_run(self) if self.is_packed else _run(self),
        ]
        return "\n".join([part for part in parts if part]) + "\n"

    def memory(self, name: str) -> str:
        """Return the C expression of the address of a memory."""
        own = f"{self.prefix}_{identifier(name)}"
        if name in self.constants:
            return f"(uint8_t*)(uintptr_t)&{own}"
        if name in self.workspaces:
            return own
        return f"(uint8_t*)workspace_pools->{identifier(name)}"


def model_prefix(module_name: str) -> str:
    """Return the beginning of all C names of a model: ``tvmgen_default``."""
    return f"tvmgen_{sanitize_name(module_name)}"


def check_distinct(names: Sequence[str], what: str) -> None:
    """Raise ConfigError where two names are one in C."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two {what} of the model would be called '{twice}' in C",
            notes=("rename one: C's names have letters, digits and underscores",),
        )


def interface_header(
    module_name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    pools: Mapping[str, int],
    devices: Sequence[str],
    workspace_size: int,
    sizes: Mapping[str, int],
    alignment: int = 16,
    has_own_io: bool = False,
) -> str:
    """Return the header of a model that is called with structures of pointers. ``pools`` are the
    memories that the caller provides, with the bytes needed; ``sizes`` the bytes of tensors. Where
    inputs and outputs lie in these memories (``has_own_io``), functions tell their addresses.
    """
    prefix = model_prefix(module_name)
    for names, what in ((inputs, "inputs"), (outputs, "outputs"), (list(pools), "pools")):
        check_distinct([identifier(name) for name in names], what)
    groups = {
        "inputs": (inputs, "inputs"),
        "outputs": (outputs, "outputs"),
        "workspace_pools": (list(pools), f"memories, each aligned to {alignment} bytes"),
        "devices": (devices, "handles of devices"),
    }
    given = {name: one for name, one in groups.items() if one[0] or name in ("inputs", "outputs")}
    lines = []
    for one, size in sizes.items():
        lines += [f"#define {_macro(prefix, one)}_SIZE {size}  /* bytes */"]
    for pool, size in pools.items():
        lines += [f"#define {_macro(prefix, pool)}_WORKSPACE_POOL_SIZE {size}  /* bytes */"]
    lines += [
        "/* All memory beside inputs, outputs and constants, in bytes. */",
        f"#define {prefix.upper()}_WORKSPACE_SIZE {workspace_size}",
        "",
    ]
    for name, (members, words) in given.items():
        fields = [f"  void* {identifier(member)};" for member in members] or ["  char none;"]
        lines += [f"/* The {words}. */", f"struct {prefix}_{name} {{", *fields, "};", ""]
    if has_own_io:
        words = f"struct {prefix}_workspace_pools* workspace_pools" if pools else "void"
        for name in ("inputs", "outputs"):
            lines += [
                f"/* Tells where the {name} lie in the memory of the model. */",
                f"struct {prefix}_{name} {prefix}_map_{name}({words});",
            ]
    passed = [name for name in given if not (has_own_io and name in ("inputs", "outputs"))]
    parameters = ",\n    ".join([f"struct {prefix}_{name}* {name}" for name in passed]) or "void"
    lines += [
        "/* Runs the model; returns 0, or the code of an error. */",
        f"int32_t {prefix}_run(\n    {parameters});",
    ]
    return _guarded(prefix, module_name, lines)


def _macro(prefix: str, name: str) -> str:
    return f"{prefix}_{identifier(name)}".upper()


def _guarded(prefix: str, module_name: str, lines: Sequence[str]) -> str:
    guard = f"{prefix.upper()}_H_"
    shown = module_name.replace("*/", "")
    return "\n".join(
        [
            f"/* Made by Tilesmith: the interface of the model '{shown}'. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *lines,
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            f"#endif  /* {guard} */",
            "",
        ]
    )


def _packed_header(interface: ModelInterface) -> str:
    prefix = interface.prefix
    order = ", ".join(
        [one.name for one in (*interface.inputs, *interface.outputs)]
        + [f"the address of the pool {name}" for name in interface.pools]
    ).replace("*/", "")
    tensors = (*interface.inputs, *interface.outputs)
    lines = [
        *[f"#define {_macro(prefix, one.member)}_SIZE {one.nbytes}" for one in tensors],
        *[
            f"#define {_macro(prefix, name)}_WORKSPACE_POOL_SIZE {size}"
            for name, size in interface.pools.items()
        ],
        "",
        "/* The part of tvm-ffi's C interface that is used here. */",
        "#ifndef TS_PACKED_TYPES",
        "#define TS_PACKED_TYPES",
        "#include <stddef.h>",
        _ffi_types(),
        "#endif",
        "",
        f"/* Runs the model on the arguments {order};\n   returns 0, or the code of an error. */",
        f"int32_t {prefix}_run(void* self, TsAny* args, int32_t count, TsAny* result);",
    ]
    return _guarded(prefix, interface.module_name, lines)


def _ffi_types() -> str:
    return FFI_TYPES.replace(
        "/* The part of tvm-ffi's C interface that is used here. */", ""
    ).strip()


def _constants(interface: ModelInterface, pool: str, held: Sequence[PlacedConstant]) -> str:
    """Write the constants of a pool as one structure; the compiler checks their offsets."""
    tag = f"{interface.prefix}_{identifier(pool)}"
    section = _macro(interface.prefix, pool) + "_SECTION"
    fields, values, checks = [], [], []
    for one in held:
        name = identifier(one.name)
        array, dtype, kind = numpy.asarray(one.array), one.dtype, c_type(one.dtype)
        if is_packed(dtype):
            array, kind, dtype = pack(array, dtype), "uint8_t", DataType("uint8")
        count = max(1, array.size)
        fields.append(f"  {kind} {name}[{count}] TS_ALIGNED({interface.alignment});")
        values.append(f"{C99.array_text(array, dtype)}")
        wanted = f"offsetof(struct {tag}, {name}) == {one.byte_offset}"
        checks.append(f"typedef char {tag}_{name}_is_in_place[{wanted} ? 1 : -1];")
    return "\n".join(
        [
            f"/* Define {section} as the attribute that places these constants. */",
            f"#ifndef {section}",
            f"#define {section}",
            "#endif",
            f"struct {tag} {{",
            *fields,
            "};",
            *checks,
            f"static const struct {tag} {tag} TS_ALIGNED({interface.alignment}) {section} = {{",
            ",\n".join(values),
            "};\n",
        ]
    )


def _run(interface: ModelInterface) -> str:
    prefix = interface.prefix
    pools = f"struct {prefix}_workspace_pools* workspace_pools"
    groups = {"inputs": interface.inputs, "outputs": interface.outputs}
    parameters, lines, words = [], [], []
    if not interface.io_places:
        parameters = [f"struct {prefix}_{name}* {name}" for name in groups]
        lines = [f"  (void){name};" for name, members in groups.items() if not members]
        words = [
            f"({c_type(one.dtype)}*){name}->{one.member}"
            for name, members in groups.items()
            for one in members
        ]
    if interface.pools:
        parameters.append(pools)
    words += [interface.memory(name) for name in interface.memories]
    arguments = ",\n      ".join(words)
    return "\n".join(
        [
            *(
                _maps(interface, pools if interface.pools else "void")
                if interface.io_places
                else ()
            ),
            f"int32_t {prefix}_run(\n    " + (",\n    ".join(parameters) or "void") + ") {",
            *lines,
            f"  return {interface.main}(\n      {arguments});",
            "}",
        ]
    )


def _maps(interface: ModelInterface, parameter: str) -> list[str]:
    """Write the functions that tell where inputs and outputs lie."""
    prefix, places = interface.prefix, list(interface.io_places)
    lines: list[str] = []
    for name in ("inputs", "outputs"):
        members = getattr(interface, name)
        own, places = places[: len(members)], places[len(members) :]
        lines += [
            f"struct {prefix}_{name} {prefix}_map_{name}({parameter}) {{",
            f"  struct {prefix}_{name} {name};",
            *[
                f"  {name}.{one.member} = {interface.memory(pool)} + {offset};"
                for one, (pool, offset) in zip(members, own)
            ],
            *([] if parameter == "void" else ["  (void)workspace_pools;"]),
            f"  return {name};",
            "}",
        ]
    return lines


def _packed_run(interface: ModelInterface) -> str:
    """Write the function with packed arguments: it checks their number, kinds and dtypes."""
    tensors = [*interface.inputs, *interface.outputs]
    count = len(tensors) + len(interface.pools)
    lines = [
        f"int32_t {interface.prefix}_run(void* self, TsAny* args, int32_t count, TsAny* result) {{",
        "  (void)self; (void)result;",
        f"  if (count != {count}) return -1;",
    ]
    words = []
    for number, one in enumerate(tensors):
        bits = 8 if one.dtype.is_bool else one.dtype.bits
        extents = ", ".join([str(extent) for extent in one.shape]) or "0"
        fits = f"ts_fits(&args[{number}], {len(one.shape)}, {_code(one.dtype)}, {bits}, shape)"
        lines += [
            "  {",
            f"    static const int64_t shape[] = {{{extents}}};",
            f"    if (!{fits}) return -1;  /* {one.member} */",
            "  }",
        ]
        words.append(f"({c_type(one.dtype)}*)ts_data(&args[{number}])")
    first = len(tensors)
    addresses = {name: f"(uint8_t*)args[{first + k}].v.p" for k, name in enumerate(interface.pools)}
    for k in range(len(interface.pools)):
        lines.append(f"  if (args[{first + k}].type_index != 4) return -1;")
    words += [addresses.get(name) or interface.memory(name) for name in interface.memories]
    lines += ["  return " + interface.main + "(\n      " + ",\n      ".join(words) + ");", "}"]
    return _PACKED_HELPERS + "\n".join(lines)


def _code(dtype: DataType) -> int:
    """Return DLPack's code of a dtype."""
    if dtype.is_bool:
        return 6
    if dtype.element == "bfloat16":
        return 4
    return 2 if dtype.is_float else 1 if dtype.is_uint else 0


_PACKED_HELPERS = """\
/* Returns the tensor of an argument: one of tvm-ffi's objects, or a plain one. */
static const TsTensor* ts_tensor(const TsAny* any) {
  if (any->type_index == 70) return (const TsTensor*)(const void*)((const char*)any->v.p + 24);
  return any->type_index == 7 ? (const TsTensor*)any->v.p : NULL;
}
static void* ts_data(const TsAny* any) {
  const TsTensor* tensor = ts_tensor(any);
  return (char*)tensor->data + tensor->byte_offset;
}
/* Tells whether an argument is a tensor of a dtype and a shape, in rows without gaps. */
static int ts_fits(const TsAny* any, int32_t ndim, int code, int bits, const int64_t* shape) {
  const TsTensor* tensor = ts_tensor(any);
  int64_t count = 1;
  if (tensor == NULL || tensor->ndim != ndim || tensor->dtype.code != code ||
      tensor->dtype.bits != bits || tensor->dtype.lanes != 1) return 0;
  for (int32_t axis = ndim - 1; axis >= 0; --axis) {
    if (tensor->shape[axis] != shape[axis]) return 0;
    if (tensor->strides != NULL && shape[axis] != 1 && tensor->strides[axis] != count) return 0;
    count *= shape[axis];
  }
  return 1;
}
"""
