"""Writes the C code that a model without tvm-ffi's library needs: it keeps errors, sets the number
of threads, and holds embedded parameters. See ``codegen.llvm.c_support`` for the functions.
"""

from __future__ import annotations

from tilesmith.codegen.c.code import machine_options
from tilesmith.codegen.c_compiler import compile_source
from tilesmith.target import Target

__all__ = ["c_support", "c_support_source"]

_INCLUDES = "#include <stddef.h>\n#include <stdint.h>\n"

_ERRORS = """
#if defined(__GNUC__)
#define M_WEAK __attribute__((weak))
#define M_ALIGNED __attribute__((aligned(64)))
#define M_THREAD_LOCAL __thread
#else
#define M_WEAK
#define M_ALIGNED
#define M_THREAD_LOCAL
#endif

/* Keeps the last error of each thread. */
static M_THREAD_LOCAL char M_error[512];
static size_t M_append(size_t place, const char* text) {
  while (*text != 0 && place < sizeof(M_error) - 1) M_error[place++] = *text++;
  M_error[place] = 0;
  return place;
}
M_WEAK void TVMFFIErrorSetRaisedFromCStrParts(
    const char* kind, const char** parts, int32_t count) {
  size_t place = M_append(M_append(0, kind), ": ");
  for (int32_t number = 0; number < count; ++number) place = M_append(place, parts[number]);
}
M_WEAK void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1);
}
/* The error of a task goes to the thread that launched it: until then it stays where it is. */
M_WEAK void TVMFFIErrorMoveFromRaised(void** place) { *place = M_error; }
M_WEAK void TVMFFIErrorSetRaised(void* error) {
  if (error != M_error) M_append(0, (const char*)error);
}
M_WEAK int TVMFFIObjectDecRef(void* error) { (void)error; return 0; }
const char* M_last_error(void) { return M_error; }
"""

_OPENMP = """
#if defined(_OPENMP)
#include <omp.h>
void M_set_threads(int32_t count) { omp_set_num_threads(count < 1 ? 1 : (int)count); }
#else
void M_set_threads(int32_t count) { (void)count; }
#endif
"""

_POOL = """
typedef void (*M_Task)(int32_t task, int32_t num_tasks, void* data);
extern void (*__tilesmith_parallel_launch)(M_Task, void*);
extern int32_t __tilesmith_num_threads;
extern void __tilesmith_launch_serial(M_Task task, void* data);
extern void __tilesmith_launch_pool(M_Task task, void* data);
void M_set_threads(int32_t count) {
  __tilesmith_num_threads = count < 1 ? 1 : count;
  __tilesmith_parallel_launch = count > 1 ? __tilesmith_launch_pool : __tilesmith_launch_serial;
}
"""


def c_support_source(prefix: str, weights: bytes) -> str:
    """Return what is written behind a model's C code; OpenMP runs its parallel loops."""
    return (_ERRORS + _OPENMP).replace("M_", prefix + "_") + _embedded(prefix, weights)


def c_support(prefix: str, weights: bytes, target: Target) -> bytes:
    """Return an object file for code whose parallel loops the library's threads run."""
    text = (_ERRORS + _POOL).replace("M_", prefix + "_") + _embedded(prefix, weights)
    return compile_source(_INCLUDES + text, target, options=machine_options(target))


def _embedded(prefix: str, weights: bytes) -> str:
    if not weights:
        return ""
    rows = [weights[begin : begin + 24] for begin in range(0, len(weights), 24)]
    lines = ",\n".join([",".join([str(byte) for byte in row]) for row in rows])
    return (
        f"\nconst unsigned char {prefix}_embedded[{len(weights)}] {prefix}_ALIGNED = {{\n"
        f"{lines}}};\n"
    )
