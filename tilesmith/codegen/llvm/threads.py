"""Holds the thread functions that every library with parallel loops contains.

    @__tilesmith_parallel_launch   ptr to void(ptr body, ptr data); first @__tilesmith_launch_serial
    @__tilesmith_launch_gomp       divides by libgomp, whose functions stand in @__tilesmith_gomp
    @__tilesmith_launch_pool       divides by a pool of the library's own
    @__tilesmith_pool_stop         ends the pool's threads; to be called before code is unloaded
    @__tilesmith_num_threads, @__tilesmith_max_threads

`body` is void(i32 task, i32 num_tasks, ptr data). Nested parallel regions run serially. All are
weak: the object files of one library each bring them and share one copy.

The pool. A launcher takes the pool by an atomic exchange; where another Python thread (or an outer
loop) holds it, the loop runs serially. The launcher runs task 0; each other task has a slot, one
line of the caches, with all that is to be known about it and a word: the task is done (0), open
(1) or claimed (2), or the worker sleeps (3) or shall end (4). Worker `w` looks at the slot of task
`w + 1` only, so that what goes between two processors is that line: to the worker with the task,
and back when it is done. A task mostly meets the same cache again; but a thread that is done claims
further tasks, so that a thread that the system does not schedule delays no other. Workers spin for
a while, then sleep on a condition.
"""

from __future__ import annotations

MAX_WORKERS = 256
SPINS = 4000  # some ten microseconds, 100 on Zen 5

_GLOBALS = """
@__tilesmith_parallel_launch = weak_odr {v}global ptr @__tilesmith_launch_serial, align 8
@__tilesmith_num_threads = weak_odr {v}global i32 1, align 4
@__tilesmith_max_threads = weak_odr {v}global i32 {max_threads}, align 4
@__tilesmith_gomp = weak_odr {v}global [3 x ptr] zeroinitializer, align 8

define weak_odr {v}void @__tilesmith_launch_serial(ptr %body, ptr %data) {{
  call void %body(i32 0, i32 1, ptr %data)
  ret void
}}

define internal i32 @__tilesmith_thread_count() {{
  %count = load i32, ptr @__tilesmith_num_threads, align 4
  %bound = load i32, ptr @__tilesmith_max_threads, align 4
  %has_bound = icmp sgt i32 %bound, 0
  %least = call i32 @llvm.smin.i32(i32 %count, i32 %bound)
  %threads = select i1 %has_bound, i32 %least, i32 %count
  ret i32 %threads
}}

define internal void @__tilesmith_gomp_task(ptr %work) {{
  %body = load ptr, ptr %work, align 8
  %data_place = getelementptr ptr, ptr %work, i64 1
  %data = load ptr, ptr %data_place, align 8
  %number_place = getelementptr ptr, ptr @__tilesmith_gomp, i64 1
  %number = load ptr, ptr %number_place, align 8
  %count_place = getelementptr ptr, ptr @__tilesmith_gomp, i64 2
  %count = load ptr, ptr %count_place, align 8
  %task = call i32 %number()
  %tasks = call i32 %count()
  call void %body(i32 %task, i32 %tasks, ptr %data)
  ret void
}}

define weak_odr {v}void @__tilesmith_launch_gomp(ptr %body, ptr %data) {{
  %threads = call i32 @__tilesmith_thread_count()
  %start = load ptr, ptr @__tilesmith_gomp, align 8
  %has_gomp = icmp ne ptr %start, null
  %several = icmp sgt i32 %threads, 1
  %parallel = and i1 %has_gomp, %several
  br i1 %parallel, label %launch, label %alone
launch:
  %work = alloca [2 x ptr], align 8
  store ptr %body, ptr %work, align 8
  %data_place = getelementptr ptr, ptr %work, i64 1
  store ptr %data, ptr %data_place, align 8
  call void %start(ptr @__tilesmith_gomp_task, ptr %work, i32 %threads, i32 0)
  ret void
alone:
  call void %body(i32 0, i32 1, ptr %data)
  ret void
}}
"""

# All tasks of a region run at the same time, each on a thread of its own, until the last one is
# over: a thread claims further tasks only after its own. So a task may wait for the others.
# %barrier: how many have arrived, and how often all have; %code is not 0 once a task has ended
# with an error.
_BARRIER = """
define weak_odr {v}i1 @__tilesmith_parallel_barrier(ptr %barrier, ptr %code, i32 %tasks) {{
entry:
  %turn = getelementptr i32, ptr %barrier, i32 1
  %before = load atomic i32, ptr %turn acquire, align 4
  %others = atomicrmw add ptr %barrier, i32 1 acq_rel
  %arrived = add i32 %others, 1
  %is_last = icmp eq i32 %arrived, %tasks
  br i1 %is_last, label %open, label %wait
open:
  store atomic i32 0, ptr %barrier monotonic, align 4
  %following = add i32 %before, 1
  store atomic i32 %following, ptr %turn release, align 4
  ret i1 true
wait:
  %spins = phi i32 [ 0, %entry ], [ %more_spins, %spin ], [ %more_spins, %yield ]
  %now = load atomic i32, ptr %turn acquire, align 4
  %is_open = icmp ne i32 %now, %before
  br i1 %is_open, label %passed, label %look
passed:
  ret i1 true
look:
  %failure = load atomic i32, ptr %code acquire, align 4
  %is_over = icmp ne i32 %failure, 0
  br i1 %is_over, label %failed, label %pause
failed:
  ret i1 false
pause:
  {pause}
  %more_spins = add i32 %spins, 1
  %part = and i32 %more_spins, 255
  %is_long = icmp eq i32 %part, 0
  br i1 %is_long, label %yield, label %spin
yield:
  {yield}
  br label %wait
spin:
  br label %wait
}}
"""

_NO_POOL = """
define weak_odr {v}void @__tilesmith_launch_pool(ptr %body, ptr %data) {{
  call void %body(i32 0, i32 1, ptr %data)
  ret void
}}
define weak_odr {v}void @__tilesmith_pool_stop() {{
  ret void
}}
"""

# The pool's memory: offsets into one block, so that several object files share it as one symbol.
_BUSY, _WORKERS, _READY, _MUTEX, _CONDITION, _THREADS = 0, 4, 8, 64, 192, 320
_SLOTS = _THREADS + 8 * MAX_WORKERS  # one cache line each: word, tasks, body, data
_POOL_BYTES = _SLOTS + 64 * (MAX_WORKERS + 1)

_POOL = """
@__tilesmith_pool = weak_odr {v}global [{pool_bytes} x i8] zeroinitializer, align 64

define weak_odr {v}void @__tilesmith_launch_pool(ptr %body, ptr %data) {{
entry:
  %wanted = call i32 @__tilesmith_thread_count()
  %threads = call i32 @llvm.smin.i32(i32 %wanted, i32 {max_workers})
  %several = icmp sgt i32 %threads, 1
  br i1 %several, label %take, label %alone
alone:
  call void %body(i32 0, i32 1, ptr %data)
  ret void
take:
  %busy = getelementptr i8, ptr @__tilesmith_pool, i64 {busy}
  %taken = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %is_mine = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %is_mine, label %start, label %alone
start:
  %more = sub i32 %threads, 1
  %workers = call i32 @__tilesmith_pool_start(i32 %more)
  %least = call i32 @llvm.smin.i32(i32 %workers, i32 %more)
  %tasks = add i32 %least, 1
  br label %publish
publish:
  %task = phi i32 [ 1, %start ], [ %following, %fill ]
  %asleep = phi i1 [ false, %start ], [ %some_asleep, %fill ]
  %has_slot = icmp slt i32 %task, %tasks
  br i1 %has_slot, label %fill, label %go
fill:
  %slot = call ptr @__tilesmith_pool_slot(i32 %task)
  %tasks_place = getelementptr i8, ptr %slot, i64 4
  store i32 %tasks, ptr %tasks_place, align 4
  %body_place = getelementptr i8, ptr %slot, i64 8
  store ptr %body, ptr %body_place, align 8
  %data_place = getelementptr i8, ptr %slot, i64 16
  store ptr %data, ptr %data_place, align 8
  %old = atomicrmw xchg ptr %slot, i32 1 acq_rel
  %sleeps = icmp eq i32 %old, 3
  %some_asleep = or i1 %asleep, %sleeps
  %following = add i32 %task, 1
  br label %publish
go:
  br i1 %asleep, label %wake, label %run
wake:
  call void @__tilesmith_pool_wake()
  br label %run
run:
  call void %body(i32 0, i32 %tasks, ptr %data)
  call void @__tilesmith_pool_claim(i32 1, i32 %tasks)
  br label %next
next:
  %awaited = phi i32 [ 1, %run ], [ %later, %passed ]
  %is_left = icmp slt i32 %awaited, %tasks
  br i1 %is_left, label %watch, label %done
watch:
  %watched = call ptr @__tilesmith_pool_slot(i32 %awaited)
  br label %wait
wait:
  %spins = phi i32 [ 0, %watch ], [ %more_spins, %again ]
  %word = load atomic i32, ptr %watched acquire, align 4
  %is_claimed = icmp eq i32 %word, 2
  br i1 %is_claimed, label %spin, label %passed
passed:
  %later = add i32 %awaited, 1
  br label %next
spin:
  {pause}
  %more_spins = add i32 %spins, 1
  %part = and i32 %more_spins, 255
  %is_long = icmp eq i32 %part, 0
  br i1 %is_long, label %yield, label %again
yield:
  %ignored = call i32 @sched_yield()
  br label %again
again:
  br label %wait
done:
  store atomic i32 0, ptr %busy release, align 4
  ret void
}}

define internal ptr @__tilesmith_pool_slot(i32 %task) {{
  %wide = zext i32 %task to i64
  %offset = mul i64 %wide, 64
  %slots = getelementptr i8, ptr @__tilesmith_pool, i64 {slots}
  %slot = getelementptr i8, ptr %slots, i64 %offset
  ret ptr %slot
}}

; Run the task of a slot if it is open, and return how many tasks there are; 0 if it is not.
define internal i32 @__tilesmith_pool_try(i32 %task) {{
entry:
  %slot = call ptr @__tilesmith_pool_slot(i32 %task)
  %seen = load atomic i32, ptr %slot monotonic, align 4
  %is_open = icmp eq i32 %seen, 1
  br i1 %is_open, label %claim, label %missed
claim:
  %result = cmpxchg ptr %slot, i32 1, i32 2 acquire monotonic
  %is_mine = extractvalue {{ i32, i1 }} %result, 1
  br i1 %is_mine, label %work, label %missed
work:
  %tasks_place = getelementptr i8, ptr %slot, i64 4
  %tasks = load i32, ptr %tasks_place, align 4
  %body_place = getelementptr i8, ptr %slot, i64 8
  %body = load ptr, ptr %body_place, align 8
  %data_place = getelementptr i8, ptr %slot, i64 16
  %data = load ptr, ptr %data_place, align 8
  call void %body(i32 %task, i32 %tasks, ptr %data)
  store atomic i32 0, ptr %slot release, align 4
  ret i32 %tasks
missed:
  ret i32 0
}}

; Run the tasks that are still open, from one on.
define internal void @__tilesmith_pool_claim(i32 %first, i32 %tasks) {{
entry:
  br label %look
look:
  %task = phi i32 [ %first, %entry ], [ %next, %try ]
  %is_one = icmp slt i32 %task, %tasks
  br i1 %is_one, label %try, label %done
try:
  %ignored = call i32 @__tilesmith_pool_try(i32 %task)
  %next = add i32 %task, 1
  br label %look
done:
  ret void
}}

define internal void @__tilesmith_pool_wake() {{
  %mutex = getelementptr i8, ptr @__tilesmith_pool, i64 {mutex}
  %condition = getelementptr i8, ptr @__tilesmith_pool, i64 {condition}
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}

; How many workers there are once %wanted have been asked for; only the holder of the pool calls.
define internal i32 @__tilesmith_pool_start(i32 %wanted) {{
entry:
  %workers = getelementptr i8, ptr @__tilesmith_pool, i64 {workers}
  %ready = getelementptr i8, ptr @__tilesmith_pool, i64 {ready}
  %have = load i32, ptr %workers, align 4
  %enough = icmp sge i32 %have, %wanted
  br i1 %enough, label %done, label %prepare
prepare:
  %is_ready = load i32, ptr %ready, align 4
  %first = icmp eq i32 %is_ready, 0
  br i1 %first, label %initialise, label %more
initialise:
  %mutex = getelementptr i8, ptr @__tilesmith_pool, i64 {mutex}
  %condition = getelementptr i8, ptr @__tilesmith_pool, i64 {condition}
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %condition, ptr null)
  store i32 1, ptr %ready, align 4
  br label %more
more:
  %number = phi i32 [ %have, %prepare ], [ %have, %initialise ], [ %grown, %started ]
  %is_enough = icmp sge i32 %number, %wanted
  br i1 %is_enough, label %done, label %create
create:
  %wide = zext i32 %number to i64
  %threads = getelementptr i8, ptr @__tilesmith_pool, i64 {threads}
  %thread = getelementptr i64, ptr %threads, i64 %wide
  %argument = inttoptr i64 %wide to ptr
  %failed = call i32 @pthread_create(
    ptr %thread, ptr null, ptr @__tilesmith_pool_worker, ptr %argument)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %started, label %done
started:
  %grown = add i32 %number, 1
  store i32 %grown, ptr %workers, align 4
  br label %more
done:
  %result = load i32, ptr %workers, align 4
  ret i32 %result
}}

define internal ptr @__tilesmith_pool_worker(ptr %argument) {{
entry:
  %wide = ptrtoint ptr %argument to i64
  %number = trunc i64 %wide to i32
  %task = add i32 %number, 1
  %after = add i32 %task, 1
  %slot = call ptr @__tilesmith_pool_slot(i32 %task)
  %mutex = getelementptr i8, ptr @__tilesmith_pool, i64 {mutex}
  %condition = getelementptr i8, ptr @__tilesmith_pool, i64 {condition}
  br label %spin
spin:
  %spins = phi i32 [ 0, %entry ], [ %more_spins, %idle ], [ 0, %others ], [ 0, %awake ]
  %tasks = call i32 @__tilesmith_pool_try(i32 %task)
  %has_run = icmp ne i32 %tasks, 0
  br i1 %has_run, label %others, label %idle
others:
  call void @__tilesmith_pool_claim(i32 %after, i32 %tasks)
  call void @__tilesmith_pool_claim(i32 1, i32 %task)
  br label %spin
idle:
  {pause}
  %more_spins = add i32 %spins, 1
  %tired = icmp sgt i32 %more_spins, {spins}
  br i1 %tired, label %sleep, label %spin
sleep:
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %fallen = cmpxchg ptr %slot, i32 0, i32 3 acq_rel monotonic
  br label %look
look:
  %word = load atomic i32, ptr %slot acquire, align 4
  %is_asleep = icmp eq i32 %word, 3
  br i1 %is_asleep, label %wait, label %awake
wait:
  %b = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
awake:
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  %is_end = icmp eq i32 %word, 4
  br i1 %is_end, label %leave, label %spin
leave:
  ret ptr null
}}

; A worker that spins sees that it shall end once it is tired.
define weak_odr {v}void @__tilesmith_pool_stop() {{
entry:
  %workers = getelementptr i8, ptr @__tilesmith_pool, i64 {workers}
  %count = load i32, ptr %workers, align 4
  %threads = getelementptr i8, ptr @__tilesmith_pool, i64 {threads}
  br label %mark
mark:
  %marked = phi i32 [ 0, %entry ], [ %task, %tell ]
  %is_one = icmp slt i32 %marked, %count
  br i1 %is_one, label %tell, label %told
tell:
  %task = add i32 %marked, 1
  %slot = call ptr @__tilesmith_pool_slot(i32 %task)
  store atomic i32 4, ptr %slot release, align 4
  br label %mark
told:
  call void @__tilesmith_pool_wake_all(i32 %count)
  br label %join
join:
  %number = phi i32 [ 0, %told ], [ %next, %one ]
  %is_left = icmp slt i32 %number, %count
  br i1 %is_left, label %one, label %reset
one:
  %wide = zext i32 %number to i64
  %place = getelementptr i64, ptr %threads, i64 %wide
  %thread = load i64, ptr %place, align 8
  %ignored = call i32 @pthread_join(i64 %thread, ptr null)
  %next = add i32 %number, 1
  %joined = call ptr @__tilesmith_pool_slot(i32 %next)
  store atomic i32 0, ptr %joined monotonic, align 4
  br label %join
reset:
  store i32 0, ptr %workers, align 4
  ret void
}}

; Without workers there is no mutex yet.
define internal void @__tilesmith_pool_wake_all(i32 %count) {{
  %some = icmp sgt i32 %count, 0
  br i1 %some, label %wake, label %done
wake:
  call void @__tilesmith_pool_wake()
  br label %done
done:
  ret void
}}
"""

_POOL_FUNCTIONS = (
    "declare i32 @pthread_create(ptr, ptr, ptr, ptr)",
    "declare i32 @pthread_join(i64, ptr)",
    "declare i32 @pthread_mutex_init(ptr, ptr)",
    "declare i32 @pthread_mutex_lock(ptr)",
    "declare i32 @pthread_mutex_unlock(ptr)",
    "declare i32 @pthread_cond_init(ptr, ptr)",
    "declare i32 @pthread_cond_wait(ptr, ptr)",
    "declare i32 @pthread_cond_broadcast(ptr)",
    "declare i32 @sched_yield()",
)
_PAUSE = {
    "x86": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
}
_POSIX = ("linux", "darwin", "macos", "freebsd", "netbsd", "openbsd", "android")


def runtime_text(triple: str, architecture: str, max_threads: int) -> tuple[str, tuple[str, ...]]:
    """Return the functions as LLVM text, and the declarations that they need."""
    system = triple.lower()
    has_threads = any(name in system for name in _POSIX) and not architecture.startswith("wasm")
    is_64_bit = architecture in ("x86", "aarch64") or "64" in architecture + system.split("-")[0]
    words = {
        "v": "protected ",
        "max_threads": max_threads,
        "max_workers": MAX_WORKERS,
        "pool_bytes": _POOL_BYTES,
        "spins": SPINS,
        "pause": _PAUSE.get(architecture, ""),
        "yield": "",
        "busy": _BUSY,
        "workers": _WORKERS,
        "ready": _READY,
        "mutex": _MUTEX,
        "condition": _CONDITION,
        "threads": _THREADS,
        "slots": _SLOTS,
    }
    if has_threads and is_64_bit:
        words["yield"] = "%ignored = call i32 @sched_yield()"
        return (_GLOBALS + _BARRIER + _POOL).format(**words), _POOL_FUNCTIONS
    return (_GLOBALS + _BARRIER + _NO_POOL).format(**words), ()
