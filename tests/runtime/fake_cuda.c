/* A CUDA driver on the memory of the host, for tests without a GPU. Functions do what CUDA's
   manual says as far as tests can see it; `fake_plan` plants a status for a later call. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>

#define API __attribute__((visibility("default")))
#define MAX_STREAMS 256

static int devices = 2;
static char planned_name[64];
static int planned_status = 0, planned_after = 0;
static int sticky = 0;
static intptr_t sticky_context = 0;
static atomic_long live_blocks, events_live, pool_cached_bytes;
static char is_stream[MAX_STREAMS]; /* handles are 1000 + a place here */
static char calls[1 << 20];
static long calls_size = 0;
static char order[1 << 16]; /* what streams were given, with the numbers of events */
static long order_size = 0;
#define GIVE(...) do { if (order_size + 80 < (long)sizeof order) \
  order_size += snprintf(order + order_size, 80, __VA_ARGS__); } while (0)
static __thread intptr_t current_context = 0;
static long limit_bytes = 1L << 40;

static int begin(const char *name) {
  if (calls_size + 80 < (long)sizeof calls)
    calls_size += snprintf(calls + calls_size, 80, "%s\n", name);
  if (sticky && current_context == sticky_context) return sticky;
  if (planned_status && strcmp(planned_name, name) == 0) {
    if (planned_after-- > 0) return 0;
    int status = planned_status;
    planned_status = 0;
    if (status >= 700 && status < 720 && status != 701 && status != 705) {
      sticky = status;
      sticky_context = current_context;
    }
    return status;
  }
  return 0;
}
#define ENTER(name) do { int s_ = begin(name); if (s_) return s_; } while (0)

API void fake_plan(const char *name, int status, int after) {
  snprintf(planned_name, sizeof planned_name, "%s", name);
  planned_status = status;
  planned_after = after;
}
API void fake_reset(int device_count, long limit) {
  planned_status = 0; sticky = 0; devices = device_count; calls_size = 0; calls[0] = 0;
  order_size = 0; order[0] = 0;
  pool_cached_bytes = 0;
  limit_bytes = limit;
}
API const char *fake_calls(void) { return calls; }
API const char *fake_order(void) { return order; }
API long fake_live(void) { return live_blocks; }
API long fake_events(void) { return events_live; }
static int is_bad(void *s) {
  intptr_t n = (intptr_t)s;
  return n > 2 && !(n >= 1000 && n < 1000 + MAX_STREAMS && is_stream[n - 1000]);
}

API int cuInit(unsigned flags) { return begin("cuInit"); }
API int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
static const struct { int code; const char *name, *text; } NAMES[] = {
  {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
  {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
  {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
  {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
  {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
  {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
  {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
  {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
  {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}};
static int text_of(int code, const char **out, int is_name) {
  for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
    if (NAMES[i].code == code) { *out = is_name ? NAMES[i].name : NAMES[i].text; return 0; }
  *out = 0;
  return 1;
}
API int cuGetErrorName(int code, const char **out) { return text_of(code, out, 1); }
API int cuGetErrorString(int code, const char **out) { return text_of(code, out, 0); }

API int cuDeviceGetCount(int *n) { ENTER("cuDeviceGetCount"); *n = devices; return devices ? 0 : 100; }
API int cuDeviceGet(int *d, int n) { *d = n; return n < devices ? 0 : 101; }
API int cuDeviceGetName(char *text, int size, int d) { snprintf(text, size, "Fake GPU %d", d); return 0; }
API int cuDeviceGetAttribute(int *v, int number, int d) {
  ENTER("cuDeviceGetAttribute");
  switch (number) {
    case 1: *v = 1024; break; case 2: case 3: *v = 1024; break; case 4: *v = 64; break;
    case 8: *v = 49152; break; case 10: *v = 32; break; case 13: *v = 1980000; break;
    case 16: *v = 132; break; case 38: *v = 50 << 20; break; case 75: *v = 9; break;
    case 76: *v = 0; break; case 97: *v = 232448; break; case 115: *v = d != 1; break;
    default: *v = number;
  }
  return 0;
}
API int cuDeviceTotalMem_v2(size_t *n, int d) { *n = limit_bytes; return 0; }
API int cuDevicePrimaryCtxRetain(void **c, int d) {
  ENTER("cuDevicePrimaryCtxRetain");
  *c = (void *)(intptr_t)(d + 1);
  return 0;
}
API int cuCtxGetCurrent(void **c) { *c = (void *)current_context; return 0; }
API int cuCtxSetCurrent(void *c) { current_context = (intptr_t)c; return 0; }
API int cuCtxGetDevice(int *d) { *d = (int)current_context - 1; return current_context ? 0 : 201; }
API int cuCtxSynchronize(void) { ENTER("cuCtxSynchronize"); return current_context ? 0 : 201; }

/* A header before each block keeps its size. */
typedef struct { size_t size; size_t from_pool; size_t pad[6]; } Head;
static atomic_long used_bytes;
static int get(void **p, size_t n, int from_pool) {
  if (!current_context) return 201;
  if (!n) return 1;
  if (used_bytes + pool_cached_bytes + (long)n > limit_bytes) return 2;
  Head *h = aligned_alloc(64, (n + sizeof(Head) + 63) & ~63ul);
  h->size = n; h->from_pool = from_pool;
  *p = h + 1;
  used_bytes += n; live_blocks++;
  return 0;
}
static int put(void *p, int keep) {
  Head *h = (Head *)p - 1;
  used_bytes -= h->size; live_blocks--;
  if (keep) pool_cached_bytes += h->size;
  free(h);
  return 0;
}
API int cuMemGetInfo_v2(size_t *f, size_t *t) {
  *f = limit_bytes - used_bytes - pool_cached_bytes; *t = limit_bytes; return 0;
}
API int cuMemAlloc_v2(void **p, size_t n) { ENTER("cuMemAlloc"); return get(p, n, 0); }
API int cuMemFree_v2(void *p) { ENTER("cuMemFree"); return put(p, 0); }
API int cuMemAllocManaged(void **p, size_t n, unsigned f) { ENTER("cuMemAllocManaged"); return get(p, n, 0); }
API int cuMemHostAlloc(void **p, size_t n, unsigned f) { ENTER("cuMemHostAlloc"); return get(p, n, 0); }
API int cuMemFreeHost(void *p) { ENTER("cuMemFreeHost"); return put(p, 0); }
API int cuMemPoolCreate(void **p, const void *props) {
  ENTER("cuMemPoolCreate");
  const int *v = props;
  if (v[0] != 1 || v[2] != 1 || v[3] < 0 || v[3] >= devices) return 1;
  *p = (void *)(intptr_t)(v[3] + 77);
  return 0;
}
API int cuMemPoolSetAttribute(void *p, int a, void *v) { ENTER("cuMemPoolSetAttribute"); return 0; }
API int cuMemPoolGetAttribute(void *p, int a, void *v) {
  *(uint64_t *)v = a == 5 ? used_bytes + pool_cached_bytes : used_bytes;
  return a == 5 || a == 7 ? 0 : 1;
}
API int cuMemPoolTrimTo(void *p, size_t n) { ENTER("cuMemPoolTrimTo"); pool_cached_bytes = 0; return 0; }
API int cuMemAllocFromPoolAsync(void **p, size_t n, void *pool, void *s) {
  ENTER("cuMemAllocFromPoolAsync");
  if (!pool) return 1;
  if (is_bad(s)) return 400;
  return get(p, n, 1);
}
API int cuMemFreeAsync(void *p, void *s) {
  char text[64];
  snprintf(text, sizeof text, "cuMemFreeAsync %ld", (long)(intptr_t)s);
  ENTER(text);
  if (!current_context) return 201;
  if (is_bad(s)) return 400;
  return put(p, 1);
}
API int cuMemcpyAsync(void *to, const void *from, size_t n, void *s) {
  ENTER("cuMemcpyAsync");
  if (!current_context) return 201;
  memmove(to, from, n);
  return 0;
}
API int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t n, void *s) {
  ENTER("cuMemcpyHtoDAsync");
  if (!current_context) return 201;
  memmove(to, from, n);
  return is_bad(s) ? 400 : 0;
}
API int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t n, void *s) {
  ENTER("cuMemcpyDtoHAsync");
  if (!current_context) return 201;
  memmove(to, from, n);
  return is_bad(s) ? 400 : 0;
}
API int cuMemcpyPeerAsync(void *to, void *tc, const void *from, void *fc, size_t n, void *s) {
  ENTER("cuMemcpyPeerAsync");
  if (tc == fc) return 1;
  GIVE("%ld copy\n", (long)(intptr_t)s);
  memmove(to, from, n);
  return 0;
}
API int cuMemsetD8Async(void *p, unsigned char v, size_t n, void *s) { ENTER("cuMemsetD8Async"); memset(p, v, n); return 0; }

static atomic_long next_stream;
API int cuStreamCreate(void **s, unsigned f) {
  ENTER("cuStreamCreate");
  if (f == 1) GIVE("side stream\n");
  long n = next_stream++ % MAX_STREAMS;
  is_stream[n] = 1;
  *s = (void *)(intptr_t)(1000 + n);
  return 0;
}
API int cuStreamDestroy_v2(void *s) {
  ENTER("cuStreamDestroy");
  if (is_bad(s)) return 400;
  is_stream[(intptr_t)s - 1000] = 0;
  return 0;
}
API int cuStreamSynchronize(void *s) { ENTER("cuStreamSynchronize"); return is_bad(s) ? 400 : 0; }
typedef struct { float time; int number; } Event;
API int cuStreamWaitEvent(void *s, void *e, unsigned f) {
  char text[64];
  snprintf(text, sizeof text, "cuStreamWaitEvent %ld", (long)(intptr_t)s);
  ENTER(text);
  if (is_bad(s)) return 400;
  GIVE("%ld wait %d\n", (long)(intptr_t)s, ((Event *)e)->number);
  return 0;
}
static atomic_int next_event;
API int cuEventCreate(void **e, unsigned f) {
  ENTER("cuEventCreate");
  Event *made = calloc(1, sizeof(Event));
  made->number = next_event++;
  *e = made;
  events_live++;
  return 0;
}
API int cuEventDestroy_v2(void *e) { events_live--; free(e); return 0; }
static atomic_long ticks;
API int cuEventRecord(void *e, void *s) {
  char text[64];
  snprintf(text, sizeof text, "cuEventRecord %ld", (long)(intptr_t)s);
  ENTER(text);
  if (is_bad(s)) return 400;
  ((Event *)e)->time = (float)(ticks += 2);
  GIVE("%ld record %d\n", (long)(intptr_t)s, ((Event *)e)->number);
  return 0;
}
API int cuEventSynchronize(void *e) { ENTER("cuEventSynchronize"); return 0; }
API int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = ((Event *)b)->time - ((Event *)a)->time; return 0; }

API int cuModuleLoadDataEx(void **m, const char *code, unsigned n, int *names, void **values) {
  ENTER("cuModuleLoadDataEx");
  if (strncmp(code, "bad", 3) == 0) {
    for (unsigned i = 0; i < n; i++)
      if (names[i] == 5) strcpy((char *)values[i], "line 1: unexpected 'bad'");
    return 218;
  }
  *m = (void *)0x5000;
  return 0;
}
API int cuModuleUnload(void *m) { ENTER("cuModuleUnload"); return 0; }
API int cuModuleGetFunction(void **f, void *m, const char *name) {
  ENTER("cuModuleGetFunction");
  *f = (void *)0x6000;
  return strcmp(name, "missing") == 0 ? 500 : 0;
}
API int cuModuleGetGlobal_v2(void **p, size_t *n, void *m, const char *name) { return 500; }
static int function_attributes[16];
API int cuFuncGetAttribute(int *v, int a, void *f) { *v = function_attributes[a]; return 0; }
API int cuFuncSetAttribute(void *f, int a, int v) {
  if (v > 232448) return 1;
  function_attributes[a] = v;
  return 0;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *v, void *f, int n, size_t s) { *v = 2; return 0; }
/* A map of the fake driver is what it was made of, as text. `fake_watch` names a parameter of 128
   bytes that launches keep for `fake_watched`. */
static int watched_parameter = -1;
static char watched[128];
API void fake_watch(int number) { watched_parameter = number; watched[0] = 0; }
API const char *fake_watched(void) { return watched; }
API int cuTensorMapEncodeTiled(void *map, int type, unsigned axes, void *tensor, const uint64_t *sizes,
                               const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                               int interleave, int swizzle, int promotion, int fill) {
  ENTER("cuTensorMapEncodeTiled");
  if ((intptr_t)map % 64 || (intptr_t)tensor % 16 || interleave || fill) return 1;
  char *text = map;
  int at = snprintf(text, 128, "type %d at %p:", type, tensor);
  for (unsigned i = 0; i < axes; i++) {
    if (steps[i] != 1) return 1;
    at += snprintf(text + at, 128 - at, " %lu/%u", (unsigned long)sizes[i], box[i]);
    if (i + 1 < axes) at += snprintf(text + at, 128 - at, " by %lu", (unsigned long)strides[i]);
  }
  snprintf(text + at, 128 - at, ", swizzle %d", swizzle);
  return 0;
}
API int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared, void *s, void **params, void **extra) {
  ENTER("cuLaunchKernel");
  if (watched_parameter >= 0) memcpy(watched, params[watched_parameter], sizeof watched);
  GIVE("%ld launch\n", (long)(intptr_t)s);
  ticks += 3;
  return 0;
}
typedef struct { unsigned sizes[7]; void *stream; const void *attributes; unsigned count; } Config;
API int cuLaunchKernelEx(const Config *config, void *f, void **params, void **extra) {
  char text[64];
  snprintf(text, sizeof text, "cuLaunchKernelEx %u attributes", config->count);
  ENTER(text);
  return 0;
}
static void *captured_stream;
API int cuStreamBeginCapture_v2(void *s, int mode) { ENTER("cuStreamBeginCapture"); captured_stream = s; return is_bad(s) ? 400 : 0; }
API int cuStreamIsCapturing(void *s, int *state) { *state = captured_stream && s == captured_stream; return 0; }
API int cuStreamEndCapture(void *s, void **g) {
  ENTER("cuStreamEndCapture");
  *g = (void *)0x7000;
  int is_captured = s == captured_stream;
  captured_stream = 0;
  return is_captured ? 0 : 400;
}
API int cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long f) { ENTER("cuGraphInstantiate"); *e = (void *)0x8000; return 0; }
API int cuGraphLaunch(void *e, void *s) { ENTER("cuGraphLaunch"); return is_bad(s) ? 400 : 0; }
API int cuGraphExecDestroy(void *e) { ENTER("cuGraphExecDestroy"); return 0; }
API int cuGraphDestroy(void *g) { ENTER("cuGraphDestroy"); return 0; }
