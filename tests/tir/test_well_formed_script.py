"""Well-formedness: what is accepted right beside what is refused (``tests/diagnostics``)."""

import pytest

from tilesmith import ir, tir
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import ScriptError, ScriptWarning, VerifyError
from tilesmith.tir.analysis import verify_well_formed

HEAD = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):\n'


def program(lines, check=True):
    text = HEAD + "\n".join(["    " + line for line in lines.split("\n")])
    return from_source(text, check_well_formed=check)


def block(lines, extent=15, kind="spatial"):
    inside = "\n".join(["        " + line for line in lines.split("\n")])
    return (
        f'for i in range({extent}):\n    with T.block("b"):\n'
        f"        v = T.axis.{kind}({extent}, i)\n{inside}"
    )


# Regions: what a block accesses, and what it says about that.
COVERED = [
    block("T.reads(A[v : v + 2])\nT.writes(B[v])\nB[v] = A[v + 1] - A[v]"),
    block("T.reads(A[0:16])\nT.writes(B[0:16])\nB[v] = A[v + 1]"),
    block("T.reads(A[v], A[v + 1])\nT.writes(B[v])\nB[v] = A[v + 1] - A[v]"),
    block("T.reads(A[v])\nT.writes(B[0])\nB[0] = B[0] + A[v]", kind="reduce"),
    block(
        "T.reads(A[v])\nT.writes(B[0])\nwith T.init():\n    B[0] = 0.0\nB[0] += A[v]", kind="reduce"
    ),
    # what the block owns need not be named
    block("T.reads(A[v])\nT.writes(B[v])\nC = T.alloc_buffer((1,))\nC[0] = A[v]\nB[v] = C[0]"),
    block(
        "T.reads(A[v])\nT.writes(B[v])\nM = T.match_buffer(A[v : v + 1], (1,), offset_factor=1)\n"
        "B[v] = M[0]"
    ),
    # another distance than a constant one is not judged
    block("T.reads(A[v])\nT.writes(B[v])\nfor k in range(2):\n    B[v] = A[v + k]"),
    # an opaque block and the root say what they want
    'with T.block("root"):\n    T.reads()\n    T.writes()\n    B[0] = A[0]',
]
NOT_COVERED = [
    (block("T.reads(A[v])\nT.writes()\nB[v] = A[v]"), "writes 'B'"),
    (block("T.reads()\nT.writes(B[v])\nB[v] = A[v]"), "reads 'A'"),
    (block("T.reads()\nT.writes(B[v])\nB[v] = B[v] + 1.0"), "reads 'B'"),
    (block("T.reads(A[v])\nT.writes(B[v])\nB[v] = A[v + 1]"), r"reads A\[v \+ 1\]"),
    (block("T.reads(A[v])\nT.writes(B[v])\nB[v - 1] = A[v]"), r"writes B\[v - 1\]"),
    (block("T.reads(A[0:4])\nT.writes(B[v])\nB[v] = A[4]"), r"reads A\[4\]"),
    (
        block(
            "T.reads(A[v])\nT.writes(B[v])\nfor j in range(1):\n    with T.block('inner'):\n"
            "        w = T.axis.spatial(1, j)\n        T.reads(B[v])\n        T.writes(A[v])\n"
            "        A[v] = B[v]"
        ),
        "the block 'b' reads 'B'",
    ),
]


@pytest.mark.parametrize("lines", COVERED)
def test_covered(lines):
    assert verify_well_formed(program(lines))


@pytest.mark.parametrize(("lines", "message"), NOT_COVERED)
def test_not_covered(lines, message):
    with pytest.warns(ScriptWarning, match=message):
        function = program(lines)
    assert not verify_well_formed(function, assert_mode=False)
    assert verify_well_formed(function, strict=False)  # as passes and schedules may leave it


def test_completed_regions_cover():
    """What the parser finds out by itself is never too small."""
    function = program(block("B[v] = A[v + 1] + A[v] * 2.0\nif A[v] > 0.0:\n    B[v] = A[v + 1]"))
    assert verify_well_formed(function)


TWICE = (
    'x = T.launch_thread("threadIdx.x", 4)\n'
    'with T.launch_thread("threadIdx.x", {}) as y:\n    A[x] = A[y]'
)
KERNEL = (
    'for b in T.thread_binding(4, thread="{0}"):\n'
    '    for t in T.thread_binding({1}, thread="{2}"):\n'
    "        A[t] = 1.0\n"
)


@pytest.mark.parametrize(
    ("lines", "agree"),
    [
        (
            KERNEL.format("blockIdx.x", 4, "threadIdx.x")
            + KERNEL.format("blockIdx.x", 8, "threadIdx.x"),
            True,
        ),
        (KERNEL.format("blockIdx.x", 8, "blockIdx.x"), False),
        (KERNEL.format("vthread", 8, "vthread"), True),
        (KERNEL.format("blockIdx.x", 8, "blockIdx.y"), True),
        (TWICE.format(4), True),
        (TWICE.format(5), False),
    ],
)
def test_extents_of_threads(lines, agree):
    """One kernel has one extent for each thread axis; two kernels may differ."""
    function = program(lines.rstrip(), check=False)
    assert verify_well_formed(function, assert_mode=False) == agree


def test_calls_between_functions():
    x = tir.Var("x", "int32")
    callee = ir.GlobalVar("callee")
    caller = tir.PrimFunc([x], tir.Evaluate(tir.Call("void", callee, (x,))))
    assert verify_well_formed(caller)  # alone, nothing is known of its module
    assert verify_well_formed(ir.IRModule({"caller": caller, callee: caller}))
    with pytest.raises(VerifyError, match="(?s)'callee', a function .* did you mean 'caller'"):
        verify_well_formed(ir.IRModule({"caller": caller}))


def test_an_init_needs_a_reduction():
    init = "with T.init():\n    B[v] = 0.0\nB[v] = B[v] + A[v]"
    assert verify_well_formed(program(block(init, kind="reduce")))
    with pytest.warns(ScriptWarning, match="no axis that is reduced over"):
        program(block(init))


def test_advice_names_what_is_near():
    with pytest.raises(ScriptError) as caught:

        @T.prim_func
        def wrong(A: T.Buffer((16,), "float32")):
            for i in range(16):
                with T.block("b"):
                    vi = T.axis.spatial(16, i)
                    A[vi] = A[i]

    assert caught.value.notes[0] == "use 'vi', the axis that is bound to it"
    assert caught.value.span.source_name == __file__


@pytest.mark.parametrize(
    ("axis", "loop", "extra", "fits"),
    [
        ("16", "range(16)", "", True),
        ("16", "range(15)", "", True),
        ("8", "range(16)", "", False),
        ("8", "range(16)", "T.where(i < 8)", True),
        ("(2, 16)", "range(1, 16)", "", False),
        ("(1, 16)", "range(1, 16)", "", True),
        ("8", "T.parallel(0)", "", True),
    ],
)
def test_axes_have_the_values_of_their_loops(axis, loop, extra, fits):
    lines = (
        f'for i in {loop}:\n    with T.block("b"):\n        v = T.axis.spatial({axis}, i)\n'
        f"        {extra or 'pass'}\n        B[v] = A[v]"
    )
    assert verify_well_formed(program(lines, check=False), assert_mode=False) == fits


def test_a_condition_may_keep_values_out():
    lines = (
        'for i in range(16):\n    if i < 8:\n        with T.block("b"):\n'
        "            v = T.axis.spatial(8, i)\n            B[v] = A[v]"
    )
    assert verify_well_formed(program(lines))
