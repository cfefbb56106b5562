"""Defines the helper functions that a C file includes where it needs them, and the parts of its
head.

C has no names for some of TensorIR's operators (float16). Each has a `static inline` function,
written into the file once, named after the operator and the dtype.
"""

from __future__ import annotations

import re

from tilesmith.codegen.c.dialect import C99
from tilesmith.codegen.c_family.helpers import HELPERS_BY_TYPE, SCALE_ROUNDED, helper_words
from tilesmith.codegen.c_family.small_types import small_type_helper
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError
from tilesmith.tir.struct_fields import OTHER_TYPE, TYPE_NAMES

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
    "dot_i16i16": """
static inline int32_t dot_i16i16(uint32_t a, int32_t b) {
  uint32_t total = 0;
  for (int lane = 0; lane < 32; lane += 16) {
    total += (uint32_t)((int32_t)(int16_t)(a >> lane) * (int16_t)((uint32_t)b >> lane));
  }
  return (int32_t)total;
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
}


def is_helper(name: str) -> bool:
    """True if a helper may have this name."""
    kind = name.rpartition("_")[0]
    of_types = _BITS.fullmatch(name) is not None or kind in _BY_TYPE or kind in HELPERS_BY_TYPE
    is_fixed = name in _FIXED or name == "scale_rounded"
    return of_types or is_fixed or small_type_helper(name) is not None


_BITS = re.compile("bits_[a-z0-9]+_as_[a-z0-9]+")


def helper_text(name: str, dtype: DataType | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the text of a helper, and the names of those that it needs."""
    if name in _FIXED:
        return _FIXED[name].strip("\n"), ()
    found = None
    if dtype is not None:
        found = _BY_TYPE.get(name) or HELPERS_BY_TYPE.get(name)
    elif name == "scale_rounded":
        found = SCALE_ROUNDED
    if found is not None:
        return found.strip("\n").format(**helper_words(C99, dtype)), ()
    small = small_type_helper(name)
    if small is None:
        raise CodegenError(f"there is no helper '{name}' for C")
    return small


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
