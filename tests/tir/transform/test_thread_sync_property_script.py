"""ThreadSync on random exchanges between threads: what needs no barrier does not race."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.transform.harness import apply, arrays_for, assert_same
from tilesmith.script import tir as T
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import MergeDynamicSharedMemoryAllocations, ThreadSync

NY, NX, LOOP, SIZE = 2, 4, 3, 64
CHECKED = Options(check_races=True, check_undefined=False)

coefficients = st.sampled_from([0, 1, 2, 4, 5, 8])
places = st.tuples(
    coefficients,  # of ty
    coefficients,  # of tx
    st.sampled_from([0, 1, 8, 16]),  # of the loop
    st.sampled_from([0, 16, 32]),  # of the version
    st.sampled_from([2, 3]),  # versions
    st.integers(0, 1),  # which version
    st.integers(0, 2),  # constant
    st.booleans(),  # mirrored
)


def index(place, ty, tx, k):
    a, b, c, version, modulus, shift, constant, mirrored = place
    x = NX - 1 - tx if mirrored else tx
    return (ty * a + x * b + k * c + (k + shift) % modulus * version + constant) % SIZE


def writes_apart(place):
    """Whether no two threads write the same element in one iteration."""
    for k in range(LOOP):
        found = {index(place, ty, tx, k) for ty in range(NY) for tx in range(NX)}
        if len(found) < NY * NX:
            return False
    return True


# Two threads that write one element at once race with any barriers.
written = places.filter(writes_apart)


def program(steps, inner):
    @T.prim_func
    def func(A: T.Buffer((LOOP, NY, NX), "int32"), B: T.Buffer((4, LOOP, NY, NX), "int32")):
        T.func_attr({"global_symbol": "main"})
        ty = T.launch_thread("threadIdx.y", NY)
        tx = T.launch_thread("threadIdx.x", NX)
        S = T.decl_buffer((SIZE,), "int32", scope="shared.dyn")
        R = T.decl_buffer((SIZE,), "int32", scope="shared.dyn")
        for i in range(SIZE):
            S[i] = 0
            R[i] = 0
        for k in range(LOOP):
            if inner:
                S[index(steps[0], ty, tx, k)] = A[k, ty, tx]
            B[0, k, ty, tx] = S[index(steps[1], ty, tx, k)]
            R[index(steps[2], ty, tx, k)] = B[0, k, ty, tx] + 1
            B[1, k, ty, tx] = R[index(steps[3], ty, tx, k)]
        for j in range(2):
            B[2 + j, 0, ty, tx] = S[index(steps[0], ty, tx, j)] + R[index(steps[3], ty, tx, j)]

    return func


@settings(max_examples=60, deadline=None)
@given(st.tuples(written, places, written, places), st.booleans())
def test_no_races_after_thread_sync(steps, inner):
    func = program(steps, inner)
    arrays = arrays_for(func)
    want = [array.copy() for array in arrays]
    run(func, *want)
    synced = apply(func, ThreadSync("shared.dyn"))
    for step in (synced, apply(synced, MergeDynamicSharedMemoryAllocations())):
        got = [array.copy() for array in arrays]
        run(step, *got, options=CHECKED)
        assert_same(got, want)
