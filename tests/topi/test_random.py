"""Random numbers: the cipher against the published vectors, the rest against a plain program."""

import numpy as np
import pytest

import tilesmith as ts
from tests.topi.harness import compiled, interpreted
from tilesmith import te
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.topi import random

ONES = (1 << 64) - 1
ROTATIONS = [(14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)]
FRESH = [7, 0, 11, ONES, 0, 0, 0, 0, 1 << 63, 0]
# Of the tests of the Random123 library: the text, the key, and the block, for 20 rounds.
VECTORS = [
    ("0" * 16, "0" * 16, "09218ebde6c85537 55941f5266d86105 4bd25e16282434dc ee29ec846bd2e40b"),
    ("f" * 16, "f" * 16, "29c24097942bba1b 0371bbfb0f6f4e11 3c231ffa33f83a1c cd29113fde32d168"),
    (
        "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
        "452821e638d01377 be5466cf34e90c6c be5466cf34e90c6c c0ac29b7c97c50dd",
        "a7e8fde591651bd9 baafd0c30138319b 84a5c1a729e685b9 901d406ccebc1ba4",
    ),
]


WRONG = TypeMismatchError


def words(text):
    found = [int(word, 16) for word in text.split()]
    return found if len(found) == 4 else found * 4


def block(key, text):
    """The cipher with Python's integers."""
    keys = [*key, 0x1BD11BDAA9FC1A22 ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = [(word + own) & ONES for word, own in zip(text, keys)]
    for number in range(20):
        pairs = [(0, 1), (2, 3)] if number % 2 == 0 else [(0, 3), (2, 1)]
        for (a, b), left in zip(pairs, ROTATIONS[number % 8]):
            x[a] = (x[a] + x[b]) & ONES
            x[b] = ((x[b] << left | x[b] >> (64 - left)) & ONES) ^ x[a]
        if number % 4 == 3:
            step = number // 4 + 1
            x = [(x[i] + keys[(step + i) % 5] + (step if i == 3 else 0)) & ONES for i in range(4)]
    return x


def numbers(state, count):
    """What a generator gives, and how it is left."""
    path = [state[4] | state[8], state[5] | state[9]]
    made, after = [], (state[6] << 64) + state[7]
    while len(made) < count:
        made += block(state[:4], [*path, after >> 64, after & ONES])
        after = (after + 1) % (1 << 128)
    return made[:count], [*state[:6], after >> 64, after & ONES, *state[8:]]


def run(build, *arrays, interpret=False):
    """The results of a compute on arrays; the generator comes first."""
    inputs = [np.array(x, "uint64") if isinstance(x, list) else x for x in arrays]
    tensors = [te.placeholder(x.shape, str(x.dtype), f"x{k}") for k, x in enumerate(inputs)]
    results = list(build(*tensors))
    function = te.create_prim_func([*tensors, *results])
    got = compiled(function, inputs, results)
    if interpret:
        for one, other in zip(got, interpreted(function, inputs, results)):
            np.testing.assert_array_equal(one, other)
    return got


@pytest.mark.parametrize("text, key, want", VECTORS)
def test_the_published_vectors(text, key, want):
    state = [*words(key), *words(text), 0, 0]
    _, made = run(lambda g: random.threefry_generate(g, (4,)), state, interpret=True)
    assert made.tolist() == words(want) == block(words(key), words(text))


@pytest.mark.parametrize("shape", [(1,), (2, 3), (3, 1, 4), ()])
@pytest.mark.parametrize("counter", [(0, 0), (5, ONES)])
def test_numbers_follow_from_the_key(shape, counter):
    state = [*FRESH[:6], *counter, *FRESH[8:]]
    changed, made = run(lambda g: random.threefry_generate(g, shape), state)
    wanted, after = numbers(state, int(np.prod(shape)))
    assert made.shape == shape and made.ravel().tolist() == wanted
    assert changed.tolist() == after


def test_the_next_numbers_are_others():
    changed, first = run(lambda g: random.threefry_generate(g, (6,)), FRESH)
    _, second = run(lambda g: random.threefry_generate(g, (6,)), changed)
    assert not set(first.tolist()) & set(second.tolist())


@pytest.mark.parametrize("bit", [127, 64, 63, 1])
def test_a_split_extends_the_path(bit):
    path = 0b101 << 125 if bit < 125 else 0
    state = [1, 2, 3, 4, path >> 64, path & ONES, 9, 8, (1 << bit) >> 64, (1 << bit) & ONES]
    sides = run(random.threefry_split, state, interpret=True)
    for side, taken in zip(sides, (0, 1 << bit)):
        after, marker = path | taken, 1 << (bit - 1)
        want = [1, 2, 3, 4, after >> 64, after & ONES, 0, 0, marker >> 64, marker & ONES]
        assert side.tolist() == want


def test_a_full_path_becomes_a_key():
    sides = run(random.threefry_split, [1, 2, 3, 4, 5, 6, 7, 8, 0, 1], interpret=True)
    for side, last in zip(sides, (6, 7)):
        key = block([1, 2, 3, 4], [5, last, ONES, ONES])
        assert side.tolist() == [*key, 0, 0, 0, 0, 1 << 63, 0]


def test_all_generators_of_a_tree_differ():
    level, seen = [np.array(FRESH, "uint64")], set()
    split = te.placeholder((10,), "uint64", "g")
    sides = random.threefry_split(split)
    function = te.create_prim_func([split, *sides])
    built = ts.build(function, target="llvm")["main"]
    for _ in range(4):
        seen |= {numbers(state.tolist(), 1)[0][0] for state in level}
        following = []
        for state in level:
            made = [ts.nd.array(np.zeros(10, "uint64")) for _ in sides]
            built(ts.nd.array(state), *made)
            following += [side.numpy() for side in made]
        level = following
    assert len(seen) == 1 + 2 + 4 + 8


@pytest.mark.parametrize("dtype, bits", [("float32", 24), ("float64", 53), ("float16", 11)])
def test_uniform_numbers(dtype, bits):
    low, high = np.array(-1, dtype), np.array(3, dtype)
    changed, made = run(lambda g, a, b: random.uniform(g, a, b, (3, 5), dtype), FRESH, low, high)
    wanted, after = numbers(FRESH, 15)
    fraction = np.array([word >> (64 - bits) for word in wanted]) * 2.0**-bits
    np.testing.assert_allclose(made.ravel(), -1 + 4 * fraction, rtol=2.0 ** (2 - bits), atol=1e-3)
    assert made.dtype == dtype and changed.tolist() == after


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_uniform_numbers_stay_below_the_end(dtype):
    """Rounding leads from below to the end where there are few numbers in between."""
    _, made = run(lambda g: random.uniform(g, 1024.0, 1025.0, (999,), dtype), FRESH)
    assert made.min() >= 1024 and made.max() < 1025
    _, made = run(lambda g: random.uniform(g, 2.5, 2.5, (3,), dtype), FRESH)
    assert made.tolist() == [2.5] * 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers(dtype):
    mean, scale = np.array(5, dtype), np.array([2], dtype)
    changed, made = run(lambda g, m, s: random.normal(g, m, s, (3, 3), dtype), FRESH, mean, scale)
    wanted, after = numbers(FRESH, 10)
    u = np.array(wanted, "float64") * 2.0**-64
    length = np.sqrt(-2 * np.log(u[::2]))
    both = np.stack([np.cos(2 * np.pi * u[1::2]), np.sin(2 * np.pi * u[1::2])], 1) * length[:, None]
    np.testing.assert_allclose(made.ravel(), 5 + 2 * both.ravel()[:9], rtol=1e-5, atol=1e-5)
    assert changed.tolist() == after


def test_distributions_have_their_moments():
    _, made = run(lambda g: random.normal(g, -1.0, 3.0, (20000,), "float32"), FRESH)
    assert abs(made.mean() + 1) < 0.1 and abs(made.std() - 3) < 0.1
    assert abs(((made + 1) ** 3).mean()) < 2
    _, made = run(lambda g: random.uniform(g, 0.0, 1.0, (20000,), "float32"), FRESH)
    counts, _ = np.histogram(made, 10, (0, 1))
    assert counts.sum() == 20000 and abs(counts - 2000).max() < 200


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_indices_by_their_probabilities(dtype):
    probabilities = np.array([[0, 1, 0, 3], [2, 2, 0, 0], [0, 0, 0, 0]], dtype)
    changed, made = run(lambda g, p: random.multinomial(g, p, 600), FRESH, probabilities)
    assert made.shape == (3, 600) and made.dtype == "int32"
    shares = np.stack([(made == index).mean(1) for index in range(4)], 1)
    wanted = np.array([[0, 0.25, 0, 0.75], [0.5, 0.5, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(shares, wanted, atol=0.08)
    assert (shares[wanted == 0] == 0).all()
    assert changed.tolist() == numbers(FRESH, 1800)[1]


def test_indices_of_a_vector_of_probabilities():
    _, made = run(lambda g, p: random.multinomial(g, p, 5), FRESH, np.array([1, 3], "float32"))
    fractions = np.array([word >> 40 for word in numbers(FRESH, 5)[0]]) * 2.0**-24
    assert made.tolist() == (fractions * 4 >= 1).astype(int).tolist()


def test_the_sum_of_words_wraps():
    assert random.threefry_test_wrapping("llvm", ts.cpu())


@pytest.mark.parametrize(
    "build, error",
    [
        (lambda g: random.threefry_generate(te.placeholder((9,), "uint64"), (4,)), WRONG),
        (lambda g: random.threefry_split(te.placeholder((10,), "int64")), WRONG),
        (lambda g: random.uniform(g, 0.0, 1.0, (4,), "int32"), UnsupportedError),
        (lambda g: random.normal(g, te.placeholder((2,)), 1.0, (4,), "float32"), ShapeError),
        (lambda g: random.multinomial(g, te.placeholder(()), 3), ShapeError),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(build, error):
    with pytest.raises(error):
        build(te.placeholder((10,), "uint64", "g"))


def test_shapes_may_be_known_when_the_program_runs():
    gen, n = te.placeholder((10,), "uint64", "g"), te.var("n", "int64")
    function = te.create_prim_func([gen, *random.threefry_generate(gen, (n, 3))])
    outputs = [ts.nd.array(np.zeros(10, "uint64")), ts.nd.array(np.zeros((667, 3), "uint64"))]
    ts.build(function, target="llvm")["main"](ts.nd.array(np.array(FRESH, "uint64")), *outputs)
    wanted, after = numbers(FRESH, 2001)
    assert outputs[1].numpy().ravel().tolist() == wanted
    assert outputs[0].numpy().tolist() == after
