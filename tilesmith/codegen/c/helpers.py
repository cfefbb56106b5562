"""Defines C types, constants, and the helper functions that a C file includes where it needs them.

C has no names for some of TensorIR's operators (division that rounds down, float16). Each has a
`static inline` function, written into the file once, named after the operator and the dtype.
"""

from __future__ import annotations

import math
import re

import numpy

from tilesmith.codegen.c.small_types import is_small_float, small_name
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError
from tilesmith.tir.struct_fields import OTHER_TYPE, TYPE_NAMES

FLOAT32 = DataType("float32")
_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool true false main NULL INFINITY NAN asm typeof".split()
)
_SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool"}


def c_type(dtype: DataType) -> str:
    """Return the C type of one lane of `dtype`; float16 and bfloat16 are kept as their bits."""
    if dtype.is_bool:
        return "bool"
    if dtype.is_integer and dtype.bits in (1, 2, 4, 8, 16, 32, 64):
        return f"{'u' if dtype.is_uint else ''}int{max(8, dtype.bits)}_t"
    if dtype.element in ("float32", "float64"):
        return "float" if dtype.bits == 32 else "double"
    if dtype.element in ("float16", "bfloat16"):
        return "uint16_t"
    if is_small_float(dtype):
        return "uint8_t"
    if dtype.is_handle:
        return "void*"
    if dtype.is_void:
        return "void"
    raise CodegenError(
        f"C code cannot hold values of '{dtype}'",
        notes=("integers have 1, 2, 4, 8, 16, 32 or 64 bits, floats 4, 8, 16, 32 or 64",),
    )


def is_narrow(dtype: DataType) -> bool:
    """True if a float dtype is computed in float32."""
    return dtype.is_float and dtype.bits < 32


def short(dtype: DataType) -> str:
    """Return the abbreviation of a dtype in the name of a helper: `i32`, `u8`, `f32`."""
    element = dtype.element
    if is_small_float(element):
        return small_name(element)
    return _SHORT.get(element) or f"{'u' if element.is_uint else 'i'}{element.bits}"


def identifier(name: str) -> str:
    """Return a name with only the letters that C allows."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name) or "v"
    if cleaned[0].isdigit():
        cleaned = "v" + cleaned
    return cleaned + "_" if cleaned in _KEYWORDS else cleaned


def constant(value: float, dtype: DataType) -> str:
    """Return a constant of a scalar dtype."""
    if dtype.is_bool:
        return "true" if value else "false"
    if is_narrow(dtype):
        bits = numpy.array(value, dtype.numpy())
        return f"0x{int(bits.view(f'u{bits.itemsize}')):0{2 * bits.itemsize}x}"
    if dtype.is_float:
        return float_text(float(value), dtype)
    if dtype.bits == 64:
        if dtype.is_int and value == -(1 << 63):
            return "INT64_MIN"
        return f"UINT64_C({value})" if dtype.is_uint else f"INT64_C({value})"
    if dtype == "int32" and value == -(1 << 31):
        return "INT32_MIN"
    return f"{value}u" if dtype == "uint32" else str(value)


def rounded_to(value: float, dtype: DataType) -> float:
    """Return the number of a narrow float dtype that a constant stands for."""
    return float(numpy.array(value, dtype.element.numpy()))


def float_text(value: float, dtype: DataType) -> str:
    """Return a float32 or float64 constant as the shortest text that reads back the same."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "-INFINITY" if value < 0 else "INFINITY"
    if dtype.bits == 64:
        return repr(value)
    rounded = numpy.float32(value)
    if numpy.isinf(rounded):
        return "-INFINITY" if value < 0 else "INFINITY"
    text = str(rounded)
    return (text if "." in text or "e" in text else text + ".0") + "f"


def c_string(text: str) -> str:
    """Return a text as a C string constant."""
    letters = []
    for byte in text.encode():
        if byte in (34, 92):
            letters.append("\\" + chr(byte))
        else:
            letters.append(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(letters) + '"'


_FIXED = {
    "f16_to_f32": """
static inline float f16_to_f32(uint16_t h) {
  uint32_t rest = h & 0x7fffu, bits = rest << 13;
  float value;
  memcpy(&value, &bits, 4);
  value *= 5.192296858534828e+33f; /* 2 ** 112 */
  memcpy(&bits, &value, 4);
  if (rest >= 0x7c00u) bits = (rest << 13) | 0x7f800000u;
  bits |= (uint32_t)(h & 0x8000u) << 16;
  memcpy(&value, &bits, 4);
  return value;
}""",
    "f32_to_f16": """
static inline uint16_t f32_to_f16(float value) {
  uint32_t bits, magnitude, result;
  memcpy(&bits, &value, 4);
  magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u;
  } else if (magnitude < 0x38800000u) { /* below 2 ** -14: steps of 2 ** -24 */
    float small;
    memcpy(&small, &magnitude, 4);
    small += 0.5f; /* the last digit of a sum near one half is 2 ** -24 */
    memcpy(&result, &small, 4);
    result -= 0x3f000000u;
  } else {
    result = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    if (result > 0x7c00u || magnitude >= 0x7f800000u) result = 0x7c00u;
  }
  return (uint16_t)(result | ((bits >> 16) & 0x8000u));
}""",
    "bf16_to_f32": """
static inline float bf16_to_f32(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}""",
    "f32_to_bf16": """
static inline uint16_t f32_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}""",
    "dp4a_i8": """
static inline int32_t dp4a_i8(uint32_t a, uint32_t b, int32_t total) {
  for (int lane = 0; lane < 32; lane += 8) total += (int8_t)(a >> lane) * (int8_t)(b >> lane);
  return total;
}""",
    "dp4a_u8": """
static inline int32_t dp4a_u8(uint32_t a, uint32_t b, int32_t total) {
  for (int lane = 0; lane < 32; lane += 8) total += (uint8_t)(a >> lane) * (uint8_t)(b >> lane);
  return total;
}""",
    "dot_bf16bf16": """
static inline float dot_bf16bf16(uint32_t a, uint32_t b) {
  uint32_t words[4] = {a & 0xFFFF0000u, b & 0xFFFF0000u, a << 16, b << 16};
  float parts[4];
  memcpy(parts, words, sizeof parts);
  return parts[0] * parts[1] + parts[2] * parts[3];
}""",
    "dot_i8i8": """
static inline int32_t dot_i8i8(uint32_t a, int32_t b) {
  int32_t total = 0;
  for (int lane = 0; lane < 32; lane += 8) {
    total += (int32_t)(int8_t)(a >> lane) * (int8_t)((uint32_t)b >> lane);
  }
  return total;
}""",
    "dot_u8i8": """
static inline int32_t dot_u8i8(uint32_t a, int32_t b) {
  int32_t total = 0;
  for (int lane = 0; lane < 32; lane += 8) {
    total += (int32_t)(uint8_t)(a >> lane) * (int8_t)((uint32_t)b >> lane);
  }
  return total;
}""",
    "popcount": """
static inline int popcount(uint64_t x) {
  int count = 0;
  for (; x; x &= x - 1) ++count;
  return count;
}""",
    "count_leading_zeros": """
static inline int count_leading_zeros(uint64_t x, int bits) {
  for (; x; x >>= 1) --bits;
  return bits;
}""",
    "scale_rounded": """
static inline int64_t scale_rounded(int64_t value, int64_t factor, int64_t shift) {
  int64_t product = value * factor;
  return shift > 0 ? (product + (INT64_C(1) << (shift - 1))) >> shift : product << -shift;
}""",
    "decimal": """
static char* decimal(int64_t value, char* space) {
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  char* place = space + 23;
  *place = 0;
  do { *--place = (char)('0' + rest % 10); rest /= 10; } while (rest);
  if (value < 0) *--place = '-';
  return place;
}""",
}

_FIXED["type_name"] = "\n".join(
    [
        "static const char* type_name(int64_t index) {",
        "  switch (index) {",
        *[f'    case {index}: return "{name}";' for index, name in TYPE_NAMES.items()],
        f'    default: return "{OTHER_TYPE}";',
        "  }",
        "}",
    ]
)

_BY_TYPE = {
    "atomic_add": """
static inline {type} atomic_add_{short}({type}* place, {type} value) {{
  {type} old, sum;
#if defined(__GNUC__)
  __atomic_load(place, &old, __ATOMIC_RELAXED);
  do sum = ({type})(old + value);
  while (!__atomic_compare_exchange(
      place, &old, &sum, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
#else
#if defined(_OPENMP)
#pragma omp critical
#endif
  {{ old = *place; sum = ({type})(old + value); *place = sum; }}
#endif
  return old;
}}""",
    # the smallest number divided by -1 would trap
    "truncdiv": """
static inline {type} truncdiv_{short}({type} a, {type} b) {{
  return b == -1 ? ({type})(0 - ({unsigned})a) : ({type})(a / b);
}}""",
    "truncmod": """
static inline {type} truncmod_{short}({type} a, {type} b) {{
  return b == -1 ? ({type})0 : ({type})(a % b);
}}""",
    "floordiv": """
static inline {type} floordiv_{short}({type} a, {type} b) {{
  if (b == -1) return ({type})(0 - ({unsigned})a);
  {type} quotient = ({type})(a / b), rest = ({type})(a % b);
  return ({type})(quotient - (rest != 0 && (rest < 0) != (b < 0)));
}}""",
    "floormod": """
static inline {type} floormod_{short}({type} a, {type} b) {{
  if (b == -1) return 0;
  {type} rest = ({type})(a % b);
  return ({type})(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}}""",
    # keeps the first operand unless the second is strictly better, as Python's min and max do
    "min": """
static inline {type} min_{short}({type} a, {type} b) {{ return b < a ? b : a; }}""",
    "max": """
static inline {type} max_{short}({type} a, {type} b) {{ return b > a ? b : a; }}""",
    "pow": """
static inline {type} pow_{short}({type} base, {type} exponent) {{
  {type} result = 1;{negative}
  for (; exponent; exponent = ({type})(exponent / 2)) {{
    if (exponent % 2) result = ({type})(result * base);
    base = ({type})(base * base);
  }}
  return result;
}}""",
}

_NEGATIVE_POWER = """
  if (exponent < 0) return ({type})(base == 1 ? 1 : base + 1 ? 0 : (exponent % 2 ? base : 1));"""


def is_helper(name: str) -> bool:
    """True if a helper may have this name."""
    of_types = _BITS.fullmatch(name) is not None or name.rpartition("_")[0] in _BY_TYPE
    return of_types or name in _FIXED


_BITS = re.compile("bits_[a-z0-9]+_as_[a-z0-9]+")


def helper_text(name: str, dtype: DataType | None = None) -> str:
    """Return the text of a helper."""
    if dtype is None:
        return _FIXED[name].strip("\n")
    negative = "" if dtype.is_uint else _NEGATIVE_POWER.format(type=c_type(dtype))
    words = {"type": c_type(dtype), "short": short(dtype), "negative": negative}
    words["unsigned"] = c_type(dtype).replace("uint", "int").replace("int", "uint")
    return _BY_TYPE[name].strip("\n").format(**words)


def reinterpret_text(source: DataType, target: DataType) -> str:
    """Return the helper that reads the bits of one type as another."""
    from_type, to_type = c_type(source), c_type(target)
    return (
        f"static inline {to_type} bits_{short(source)}_as_{short(target)}({from_type} x) {{\n"
        f"  {to_type} y;\n  memcpy(&y, &x, sizeof y);\n  return y;\n}}"
    )


FFI_TYPES = """
/* The part of tvm-ffi's C interface that is used here. */
typedef struct {
  int32_t type_index;
  uint32_t zero;
  union { int64_t i; double f; void* p; } v;
} TsAny;
typedef struct {
  void* data;
  struct { int32_t type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} TsTensor;
"""

FFI_TEXT = (
    FFI_TYPES
    + """\
typedef struct { const char* data; size_t size; } TsText;
extern int TVMFFIFunctionGetGlobal(const TsText* name, void** out);
extern int TVMFFIFunctionCall(void* function, TsAny* args, int32_t count, TsAny* result);
extern int TVMFFIObjectDecRef(void* object);
extern void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
extern void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count);
"""
)

CALL_PACKED = """
static inline int call_packed(
    void** slot, const char* name, TsAny* args, int32_t count, TsAny* result) {
  memset(result, 0, sizeof *result);
  if (*slot == NULL) {
    TsText text = {name, strlen(name)};
    int status = TVMFFIFunctionGetGlobal(&text, slot);
    if (status != 0) return status;
    if (*slot == NULL) {
      const char* parts[3] = {
        "generated code calls a function that nobody has registered: '", name, "'"};
      TVMFFIErrorSetRaisedFromCStrParts("UnknownFunctionError", parts, 3);
      return -1;
    }
  }
  return TVMFFIFunctionCall(*slot, args, count, result);
}
static inline int64_t any_as_int(TsAny* any) {
  if (any->type_index >= 64) { TVMFFIObjectDecRef(any->v.p); return 0; }
  if (any->type_index == 3) return (int64_t)any->v.f;
  return any->type_index == 1 || any->type_index == 2 ? any->v.i : 0;
}
static inline double any_as_float(TsAny* any) {
  return any->type_index == 3 ? any->v.f : (double)any_as_int(any);
}
"""

WITH_TENSORS = """
typedef struct { TsTensor tensor; void* context; void (*deleter)(void*); } TsManaged;
extern int TVMFFITensorFromDLPack(void* managed, int32_t alignment, int32_t contiguous, void** out);
/* A counted tensor over the memory of one on the stack: a callee may keep it. */
static int own_tensor(const TsTensor* tensor, TsAny* any) {
  const int32_t rank = tensor->ndim;
  TsManaged* made = (TsManaged*)malloc(sizeof(TsManaged) + (size_t)rank * 2 * sizeof(int64_t));
  int64_t stride = 1;
  if (made == NULL) return -1;
  made->tensor = *tensor;
  made->context = NULL;
  made->deleter = free;
  made->tensor.shape = (int64_t*)(made + 1);
  made->tensor.strides = made->tensor.shape + rank;
  for (int32_t axis = rank - 1; axis >= 0; --axis) {
    made->tensor.shape[axis] = tensor->shape[axis];
    made->tensor.strides[axis] = tensor->strides ? tensor->strides[axis] : stride;
    stride *= tensor->shape[axis];
  }
  any->type_index = 70;
  any->zero = 0;
  return TVMFFITensorFromDLPack(made, 0, 0, &any->v.p);
}
static int call_packed_with_tensors(
    void** slot, const char* name, TsAny* args, int32_t count, TsAny* result) {
  TsAny own[count > 0 ? count : 1];
  int32_t made = 0;
  int status = 0;
  for (; made < count; ++made) {
    own[made] = args[made];
    if (args[made].type_index != 7) continue;
    status = own_tensor((const TsTensor*)args[made].v.p, &own[made]);
    if (status != 0) break;
  }
  if (status == 0) status = call_packed(slot, name, own, count, result);
  while (made-- > 0) {
    if (args[made].type_index == 7) TVMFFIObjectDecRef(own[made].v.p);
  }
  return status;
}
"""

LAUNCH = """
/* Runs a task as often as there are threads, each time with another number. */
typedef void (*TsTask)(int32_t task, int32_t num_tasks, void* data);
#if defined(_OPENMP)
#include <omp.h>
static void ts_launch(TsTask task, void* data) {
#pragma omp parallel
  task((int32_t)omp_get_thread_num(), (int32_t)omp_get_num_threads(), data);
}
#else
static void ts_run_alone(TsTask task, void* data) { task(0, 1, data); }
#if defined(__GNUC__)
__attribute__((weak))
#endif
void (*__tilesmith_parallel_launch)(TsTask, void*) = ts_run_alone;
#define ts_launch __tilesmith_parallel_launch
#endif
"""

BARRIER = """
#if defined(__unix__) || defined(__APPLE__)
#include <sched.h>
#endif
/* Waits for all tasks of a region, which run at the same time; returns 0 once one has failed.
   barrier[0]: how many have arrived, barrier[1]: how often all have, barrier[2]: a code that stays
   that of no error. */
static int ts_barrier(int32_t* barrier, const int32_t* code, int32_t num_tasks) {
#if defined(__GNUC__)
  const int32_t before = __atomic_load_n(&barrier[1], __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&barrier[0], 1, __ATOMIC_ACQ_REL) == num_tasks) {
    __atomic_store_n(&barrier[0], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier[1], before + 1, __ATOMIC_RELEASE);
    return 1;
  }
  for (int32_t spins = 1;; ++spins) {
    if (__atomic_load_n(&barrier[1], __ATOMIC_ACQUIRE) != before) return 1;
    if (__atomic_load_n(code, __ATOMIC_ACQUIRE) != 0) return 0;
#if defined(__unix__) || defined(__APPLE__)
    if (spins % 256 == 0) sched_yield();
#endif
  }
#else
  if (num_tasks == 1) return 1;
#if defined(_OPENMP)
  int32_t before, now, failed;
#pragma omp critical(ts_barrier)
  {
    before = barrier[1];
    if (++barrier[0] == num_tasks) { barrier[0] = 0; ++barrier[1]; }
  }
  do {
#pragma omp critical(ts_barrier)
    { now = barrier[1]; failed = *code; }
  } while (now == before && failed == 0);
  return now != before;
#else
  return 1;
#endif
#endif
}
"""

KEEP_ERROR = """
/* Carries the first error of a task to the thread that launched it. */
extern void TVMFFIErrorMoveFromRaised(void** error);
extern void TVMFFIErrorSetRaised(void* error);
static void ts_keep_error(void** place, int32_t* code, int32_t status) {
  void* error = NULL;
  int is_first = 0;
  TVMFFIErrorMoveFromRaised(&error);
#if defined(__GNUC__)
  is_first = __sync_bool_compare_and_swap(code, 0, status);
#else
#if defined(_OPENMP)
#pragma omp critical
#endif
  if (*code == 0) { *code = status; is_first = 1; }
#endif
  if (is_first) *place = error;
  else if (error != NULL) TVMFFIObjectDecRef(error);
}
static void ts_raise_kept(void* error) {
  if (error == NULL) return;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
}
"""

NAME_OPERATOR = """
/* Appends which operators a kernel computes to the message of its error; an error has a header,
   then its kind and its message. */
typedef struct {
  uint64_t header[3];
  const char* kind;
  size_t kind_size;
  const char* message;
} TsError;
extern void TVMFFIErrorMoveFromRaised(void** error);
static void ts_name_operator(const char* operators) {
  void* error = NULL;
  const char* parts[2];
  TVMFFIErrorMoveFromRaised(&error);
  if (error == NULL) return;
  parts[0] = ((const TsError*)error)->message;
  parts[1] = operators;
  TVMFFIErrorSetRaisedFromCStrParts(((const TsError*)error)->kind, parts, 2);
  TVMFFIObjectDecRef(error);
}
"""
