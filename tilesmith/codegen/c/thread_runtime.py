"""Holds the C source of the threads that every library with parallel loops links once.

The same functions and variables as ``codegen/llvm/threads.py`` describes, for the same runtime
(``runtime/threads.py``), as C source for gcc and clang. The symbols are weak, because each file
with parallel loops has its own pointer to a launcher: a library keeps one of them.

A launcher takes the pool by an atomic exchange; where another thread (or an outer loop) holds it,
the loop runs serially. A generation of work is announced as (generation << 32 | tasks). Each task
has a slot that says whether it has been claimed in this generation: worker w begins with task w +
1, the launcher with task 0, and a thread that is done claims further tasks.
"""

from __future__ import annotations

__all__ = ["THREAD_RUNTIME"]

THREAD_RUNTIME = """\
/* Threads for parallel loops. Made by Tilesmith. */
#include <stdint.h>
#include <stddef.h>
#if defined(__unix__) || defined(__APPLE__)
#define TS_THREADS 1
#include <pthread.h>
#include <sched.h>
#endif

typedef void (*TsTask)(int32_t task, int32_t num_tasks, void* data);
#define TS_SHARED __attribute__((weak))

TS_SHARED void __tilesmith_launch_serial(TsTask task, void* data) { task(0, 1, data); }

TS_SHARED void (*__tilesmith_parallel_launch)(TsTask, void*) = __tilesmith_launch_serial;
TS_SHARED int32_t __tilesmith_num_threads = 1;
TS_SHARED int32_t __tilesmith_max_threads = 0; /* 0: no bound */
TS_SHARED void* __tilesmith_gomp[3] = {NULL, NULL, NULL};

static int32_t ts_thread_count(void) {
  const int32_t count = __tilesmith_num_threads, bound = __tilesmith_max_threads;
  return bound > 0 && bound < count ? bound : count;
}

/* By libgomp, whose functions the runtime writes into the table. */
typedef struct { TsTask task; void* data; } TsWork;

static void ts_gomp_task(void* given) {
  const TsWork* work = (const TsWork*)given;
  const int32_t number = ((int32_t (*)(void))__tilesmith_gomp[1])();
  const int32_t count = ((int32_t (*)(void))__tilesmith_gomp[2])();
  work->task(number, count, work->data);
}

TS_SHARED void __tilesmith_launch_gomp(TsTask task, void* data) {
  const int32_t threads = ts_thread_count();
  if (__tilesmith_gomp[0] != NULL && threads > 1) {
    TsWork work = {task, data};
    typedef void (*Parallel)(void (*)(void*), void*, unsigned, unsigned);
    ((Parallel)__tilesmith_gomp[0])(ts_gomp_task, &work, (unsigned)threads, 0);
  } else {
    task(0, 1, data);
  }
}

#if defined(TS_THREADS)
#define TS_MAX_WORKERS 256
#define TS_SPINS 4000 /* some ten microseconds */
#define TS_END UINT64_MAX
#if defined(__x86_64__) || defined(__i386__)
#define ts_pause() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define ts_pause() __asm__ __volatile__("yield")
#else
#define ts_pause() ((void)0)
#endif

typedef struct { uint32_t claimed; char space[60]; } TsSlot; /* a cache line each */

static struct {
  uint64_t state __attribute__((aligned(64)));
  int32_t pending __attribute__((aligned(64)));
  int32_t busy __attribute__((aligned(64)));
  int32_t sleepers;
  int32_t workers;
  TsTask task;
  void* data;
  pthread_t threads[TS_MAX_WORKERS];
  TsSlot slots[TS_MAX_WORKERS + 1] __attribute__((aligned(64)));
} ts_pool;
static pthread_mutex_t ts_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ts_condition = PTHREAD_COND_INITIALIZER;

/* Claims and runs tasks of one generation, beginning with `first`, until none is left to begin. */
static void ts_run(int32_t first, uint64_t state) {
  const int32_t tasks = (int32_t)(uint32_t)state;
  const uint32_t open = (uint32_t)(state >> 32) << 1;
  for (int32_t step = 0; step < tasks; ++step) {
    const int32_t sum = first + step, number = sum >= tasks ? sum - tasks : sum;
    uint32_t* slot = &ts_pool.slots[number].claimed;
    uint32_t expected = open;
    if (__atomic_load_n(slot, __ATOMIC_RELAXED) == open &&
        __atomic_compare_exchange_n(slot, &expected, open | 1, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
      ts_pool.task(number, tasks, ts_pool.data);
      __atomic_fetch_sub(&ts_pool.pending, 1, __ATOMIC_RELEASE);
    }
  }
}

static void ts_wake(void) {
  if (__atomic_load_n(&ts_pool.sleepers, __ATOMIC_SEQ_CST) > 0) {
    pthread_mutex_lock(&ts_mutex);
    pthread_cond_broadcast(&ts_condition);
    pthread_mutex_unlock(&ts_mutex);
  }
}

/* The next generation after `seen`: spins for a while, then sleeps. */
static uint64_t ts_next(uint64_t seen) {
  uint64_t state;
  for (int32_t spins = 0; spins < TS_SPINS; ++spins) {
    state = __atomic_load_n(&ts_pool.state, __ATOMIC_ACQUIRE);
    if (state != seen) return state;
    ts_pause();
  }
  __atomic_fetch_add(&ts_pool.sleepers, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_lock(&ts_mutex);
  while ((state = __atomic_load_n(&ts_pool.state, __ATOMIC_SEQ_CST)) == seen)
    pthread_cond_wait(&ts_condition, &ts_mutex);
  pthread_mutex_unlock(&ts_mutex);
  __atomic_fetch_sub(&ts_pool.sleepers, 1, __ATOMIC_SEQ_CST);
  return state;
}

static void* ts_worker(void* argument) {
  const int32_t task = (int32_t)(intptr_t)argument + 1;
  uint64_t seen = 0;
  while ((seen = ts_next(seen)) != TS_END)
    if (task < (int32_t)(uint32_t)seen) ts_run(task, seen);
  return NULL;
}

/* How many workers there are once `wanted` have been asked for; the holder of the pool calls. */
static int32_t ts_start(int32_t wanted) {
  while (ts_pool.workers < wanted) {
    void* number = (void*)(intptr_t)ts_pool.workers;
    if (pthread_create(&ts_pool.threads[ts_pool.workers], NULL, ts_worker, number) != 0) break;
    ++ts_pool.workers;
  }
  return ts_pool.workers;
}

TS_SHARED void __tilesmith_launch_pool(TsTask task, void* data) {
  int32_t threads = ts_thread_count(), expected = 0;
  if (threads > TS_MAX_WORKERS) threads = TS_MAX_WORKERS;
  if (threads <= 1 || !__atomic_compare_exchange_n(&ts_pool.busy, &expected, 1, 0,
                                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    task(0, 1, data);
    return;
  }
  const int32_t workers = ts_start(threads - 1);
  const int32_t tasks = (workers < threads - 1 ? workers : threads - 1) + 1;
  ts_pool.task = task;
  ts_pool.data = data;
  __atomic_store_n(&ts_pool.pending, tasks, __ATOMIC_RELAXED);
  const uint64_t old = __atomic_load_n(&ts_pool.state, __ATOMIC_RELAXED);
  const uint64_t state = ((old >> 32) + 1) << 32 | (uint32_t)tasks;
  const uint32_t open = (uint32_t)(state >> 32) << 1;
  for (int32_t number = 0; number < tasks; ++number)
    __atomic_store_n(&ts_pool.slots[number].claimed, open, __ATOMIC_RELEASE);
  __atomic_store_n(&ts_pool.state, state, __ATOMIC_SEQ_CST);
  ts_wake();
  ts_run(0, state);
  for (int32_t spins = 1; __atomic_load_n(&ts_pool.pending, __ATOMIC_ACQUIRE) != 0; ++spins) {
    ts_pause();
    if (spins % 256 == 0) sched_yield();
  }
  __atomic_store_n(&ts_pool.busy, 0, __ATOMIC_RELEASE);
}

/* Ends the threads; to be called before the library is unloaded. */
TS_SHARED void __tilesmith_pool_stop(void) {
  const int32_t count = ts_pool.workers;
  if (count == 0) return;
  __atomic_store_n(&ts_pool.state, TS_END, __ATOMIC_SEQ_CST);
  ts_wake();
  for (int32_t number = 0; number < count; ++number) pthread_join(ts_pool.threads[number], NULL);
  ts_pool.workers = 0;
  __atomic_store_n(&ts_pool.state, 0, __ATOMIC_SEQ_CST);
}
#else
TS_SHARED void __tilesmith_launch_pool(TsTask task, void* data) { task(0, 1, data); }
TS_SHARED void __tilesmith_pool_stop(void) {}
#endif
"""
