"""Programs with slips of the pen: whatever is written, the answer is an error with its place."""

import io
import random
import tokenize
import warnings

import pytest

import tilesmith as ts
from tests.script import test_roundtrip
from tilesmith.support.errors import DiagnosticError

TEXTS = [
    value.script()
    for value in vars(test_roundtrip).values()
    if isinstance(value, (ts.tir.PrimFunc, ts.IRModule))
]
PIECES = (
    "None", "0", "-1", "1.5", '"x"', "T", "A", "i", "()", "[]", "lambda: 0", "x=1", "*A", "T.int32",
    "True", "A[0]", "A[0:4]", "T.block", "cls", "...", "f''", "not", "and",
)  # fmt: skip
KINDS = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP)


def mutated(chance):
    """A program in which one or two words are dropped, doubled, or replaced."""
    text = chance.choice(TEXTS)
    words = list(tokenize.generate_tokens(io.StringIO(text).readline))
    words = [word for word in words if word.type in KINDS and word.start[0] == word.end[0]]
    lines = text.split("\n")
    for _ in range(chance.randint(1, 2)):
        word, other = chance.choice(words), chance.choice(words).string
        number, (first, last) = word.start[0] - 1, (word.start[1], word.end[1])
        line = lines[number]
        if line[first:last] != word.string:
            continue  # the other change has moved it
        piece = chance.choice((other, "", f"{word.string} {other}", chance.choice(PIECES)))
        lines[number] = line[:first] + piece + line[last:]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(20))
def test_slips_of_the_pen(seed):
    chance = random.Random(seed)
    for _ in range(8):
        text = mutated(chance)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                made = ts.script.from_source(text)
        except DiagnosticError as error:
            assert error.span is not None, text
            assert str(error).startswith(error.message)
        else:
            assert made.script()


def test_buffers_are_not_iterated():
    A = ts.tir.decl_buffer((4,), "float32", "A")
    with pytest.raises(TypeError, match="not iterable"):
        list(A)
