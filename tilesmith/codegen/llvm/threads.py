"""Holds the thread functions that every library with parallel loops contains.

    @__tilesmith_parallel_launch   ptr to void(ptr body, ptr data); first @__tilesmith_launch_serial
    @__tilesmith_launch_gomp       divides by libgomp, whose functions stand in @__tilesmith_gomp
    @__tilesmith_launch_pool       divides by a pool of the library's own
    @__tilesmith_pool_stop         ends the pool's threads; to be called before code is unloaded
    @__tilesmith_num_threads, @__tilesmith_max_threads

`body` is void(i32 task, i32 num_tasks, ptr data). Nested parallel regions run serially. All are
weak: the object files of one library each bring them and share one copy.

The pool. A launcher takes the pool by an atomic exchange; where another Python thread (or an outer
loop) holds it, the loop runs serially. `state` is (generation << 32 | tasks): worker `w` takes part
in a generation where `w + 1 < tasks`. Each task has a slot that says whether it has been claimed in
this generation: worker `w` prefers task `w + 1`, the launcher task 0, so that a task mostly meets
the same cache again; a thread that is done claims further tasks, so that a thread that the system
does not schedule delays no other. Workers spin for a while, then sleep on a condition.
"""

from __future__ import annotations

MAX_WORKERS = 256
SPINS = 4000  # some ten microseconds; 100 on Zen 5

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
_STATE, _PENDING, _BUSY, _WORKERS, _SLEEPERS, _READY, _BODY, _DATA = (
    0,
    64,
    128,
    132,
    136,
    140,
    192,
    200,
)
_MUTEX, _CONDITION, _THREADS = 256, 384, 512
_SLOTS = _THREADS + 8 * MAX_WORKERS  # one cache line each
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
  %body_place = getelementptr i8, ptr @__tilesmith_pool, i64 {body}
  store ptr %body, ptr %body_place, align 8
  %data_place = getelementptr i8, ptr @__tilesmith_pool, i64 {data}
  store ptr %data, ptr %data_place, align 8
  %pending = getelementptr i8, ptr @__tilesmith_pool, i64 {pending}
  store atomic i32 %tasks, ptr %pending monotonic, align 4
  %old = load atomic i64, ptr @__tilesmith_pool monotonic, align 8
  %generation = lshr i64 %old, 32
  %next = add i64 %generation, 1
  %high = shl i64 %next, 32
  %low = zext i32 %tasks to i64
  %state = or i64 %high, %low
  %number = trunc i64 %next to i32
  %open = shl i32 %number, 1
  br label %fill
fill:
  %task = phi i32 [ 0, %start ], [ %following, %fill ]
  %slot = call ptr @__tilesmith_pool_slot(i32 %task)
  store atomic i32 %open, ptr %slot release, align 4
  %following = add i32 %task, 1
  %more_slots = icmp slt i32 %following, %tasks
  br i1 %more_slots, label %fill, label %go
go:
  store atomic i64 %state, ptr @__tilesmith_pool seq_cst, align 8
  call void @__tilesmith_pool_wake()
  call void @__tilesmith_pool_run(i32 0, i64 %state)
  br label %wait
wait:
  %spins = phi i32 [ 0, %go ], [ %more_spins, %again ]
  %left = load atomic i32, ptr %pending acquire, align 4
  %is_done = icmp eq i32 %left, 0
  br i1 %is_done, label %done, label %spin
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

; Claim and run tasks of one generation, beginning with %first, until none is left to begin.
define internal void @__tilesmith_pool_run(i32 %first, i64 %state) {{
entry:
  %tasks = trunc i64 %state to i32
  %high = lshr i64 %state, 32
  %number = trunc i64 %high to i32
  %open = shl i32 %number, 1
  %claimed = or i32 %open, 1
  %pending = getelementptr i8, ptr @__tilesmith_pool, i64 {pending}
  br label %look
look:
  %step = phi i32 [ 0, %entry ], [ %next, %again ]
  %sum = add i32 %first, %step
  %is_over = icmp sge i32 %sum, %tasks
  %less = sub i32 %sum, %tasks
  %task = select i1 %is_over, i32 %less, i32 %sum
  %slot = call ptr @__tilesmith_pool_slot(i32 %task)
  %seen = load atomic i32, ptr %slot monotonic, align 4
  %is_open = icmp eq i32 %seen, %open
  br i1 %is_open, label %claim, label %again
claim:
  %result = cmpxchg ptr %slot, i32 %open, i32 %claimed acquire monotonic
  %is_mine = extractvalue {{ i32, i1 }} %result, 1
  br i1 %is_mine, label %work, label %again
work:
  %body_place = getelementptr i8, ptr @__tilesmith_pool, i64 {body}
  %body = load ptr, ptr %body_place, align 8
  %data_place = getelementptr i8, ptr @__tilesmith_pool, i64 {data}
  %data = load ptr, ptr %data_place, align 8
  call void %body(i32 %task, i32 %tasks, ptr %data)
  %left = atomicrmw sub ptr %pending, i32 1 release
  br label %again
again:
  %next = add i32 %step, 1
  %more = icmp slt i32 %next, %tasks
  br i1 %more, label %look, label %done
done:
  ret void
}}

define internal void @__tilesmith_pool_wake() {{
  %sleepers = getelementptr i8, ptr @__tilesmith_pool, i64 {sleepers}
  %count = load atomic i32, ptr %sleepers seq_cst, align 4
  %some = icmp sgt i32 %count, 0
  br i1 %some, label %wake, label %done
wake:
  %mutex = getelementptr i8, ptr @__tilesmith_pool, i64 {mutex}
  %condition = getelementptr i8, ptr @__tilesmith_pool, i64 {condition}
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
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
  %sleepers = getelementptr i8, ptr @__tilesmith_pool, i64 {sleepers}
  %mutex = getelementptr i8, ptr @__tilesmith_pool, i64 {mutex}
  %condition = getelementptr i8, ptr @__tilesmith_pool, i64 {condition}
  br label %next
next:
  %seen = phi i64 [ 0, %entry ], [ %state, %idle ], [ %state, %work ]
  br label %spin
spin:
  %spins = phi i32 [ 0, %next ], [ %more_spins, %spin_again ]
  %state.a = load atomic i64, ptr @__tilesmith_pool acquire, align 8
  %is_new = icmp ne i64 %state.a, %seen
  br i1 %is_new, label %begin, label %spin_on
spin_on:
  {pause}
  %more_spins = add i32 %spins, 1
  %tired = icmp sgt i32 %more_spins, {spins}
  br i1 %tired, label %sleep, label %spin_again
spin_again:
  br label %spin
sleep:
  %counted = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look
look:
  %state.b = load atomic i64, ptr @__tilesmith_pool seq_cst, align 8
  %is_newer = icmp ne i64 %state.b, %seen
  br i1 %is_newer, label %awake, label %wait
wait:
  %b = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
awake:
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  %uncounted = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %begin
begin:
  %state = phi i64 [ %state.a, %spin ], [ %state.b, %awake ]
  %tasks = trunc i64 %state to i32
  %is_end = icmp eq i32 %tasks, -1
  br i1 %is_end, label %leave, label %choose
choose:
  %takes_part = icmp slt i32 %task, %tasks
  br i1 %takes_part, label %work, label %idle
idle:
  br label %next
work:
  call void @__tilesmith_pool_run(i32 %task, i64 %state)
  br label %next
leave:
  ret ptr null
}}

define weak_odr {v}void @__tilesmith_pool_stop() {{
entry:
  %workers = getelementptr i8, ptr @__tilesmith_pool, i64 {workers}
  %count = load i32, ptr %workers, align 4
  %some = icmp sgt i32 %count, 0
  br i1 %some, label %stop, label %done
stop:
  store atomic i64 -1, ptr @__tilesmith_pool seq_cst, align 8
  call void @__tilesmith_pool_wake()
  %threads = getelementptr i8, ptr @__tilesmith_pool, i64 {threads}
  br label %join
join:
  %number = phi i32 [ 0, %stop ], [ %next, %join ]
  %wide = zext i32 %number to i64
  %place = getelementptr i64, ptr %threads, i64 %wide
  %thread = load i64, ptr %place, align 8
  %ignored = call i32 @pthread_join(i64 %thread, ptr null)
  %next = add i32 %number, 1
  %again = icmp slt i32 %next, %count
  br i1 %again, label %join, label %reset
reset:
  store i32 0, ptr %workers, align 4
  store atomic i64 0, ptr @__tilesmith_pool seq_cst, align 8
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
        "pending": _PENDING,
        "busy": _BUSY,
        "workers": _WORKERS,
        "sleepers": _SLEEPERS,
        "ready": _READY,
        "body": _BODY,
        "data": _DATA,
        "mutex": _MUTEX,
        "condition": _CONDITION,
        "threads": _THREADS,
        "slots": _SLOTS,
    }
    if has_threads and is_64_bit:
        words["yield"] = "%ignored = call i32 @sched_yield()"
        return (_GLOBALS + _BARRIER + _POOL).format(**words), _POOL_FUNCTIONS
    return (_GLOBALS + _BARRIER + _NO_POOL).format(**words), ()
