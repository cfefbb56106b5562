"""Where a definition in a file ends: comments and texts at the margin, brackets, decorators."""

from tilesmith.script import ir as I
from tilesmith.script import tir as T


# fmt: off
@T.prim_func
def comments(A: T.Buffer((4,), "float32")):
    A[0] = 1.0
# at the margin

    # further in
    A[1] = 2.0
    T.evaluate(T.call_extern("int32", """at
the margin"""))
    A[2] = 3.0 + \
3.0


@T.prim_func(
    private=True,
)
def brackets(
    A: T.Buffer(
        (4,), "float32"
    ),
):
    A[
0] = 1.0
    A[3] = 4.0
# fmt: on


@I.ir_module
class Module:
    """A module.

    At the margin.
    """

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        A[0] = 1.0

    # between

    @T.prim_func
    def other(A: T.Buffer((4,), "float32")):
        A[3] = 1.0


def inside():
    if True:

        @T.prim_func
        def nested(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = 1.0

            A[0] = 2.0

        return nested


def lines_of(function):
    return function.script().split("\n")


def test_all_of_each_definition_is_read():
    assert "A[2] = T.float32(6.0)" in lines_of(comments)[-1]
    assert 'T.call_extern("int32", "at\\nthe margin")' in comments.script()
    assert "A[3] = T.float32(4.0)" in lines_of(brackets)[-1]
    assert [v.name_hint for v in Module.get_global_vars()] == ["main", "other"]
    assert "A[3] = T.float32(1.0)" in lines_of(Module)[-1]
    assert "A[0] = T.float32(2.0)" in lines_of(inside())[-1]


def test_places_are_those_of_the_file():
    with open(__file__) as file:
        text = file.read().split("\n")
    for function in (comments, brackets, Module["other"], inside()):
        span = function.body.span if function is not Module["other"] else function.span
        assert text[span.line - 1][span.column - 1 :].strip()
    last = inside().body.seq[-1].span
    assert text[last.line - 1][last.column - 1 : last.end_column - 1] == "A[0] = 2.0"
