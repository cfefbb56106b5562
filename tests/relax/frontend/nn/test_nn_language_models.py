"""Rotary positions, attention over trees, paged caches."""

import subprocess
import sys

import numpy as np
import pytest

import tilesmith
from tests.relax.frontend.nn.run_nn import random
from tilesmith import relax
from tilesmith.relax.frontend import nn
from tilesmith.relax.frontend.nn import spec
from tilesmith.relax.frontend.nn.llm import position_embedding as rope
from tilesmith.relax.frontend.nn.llm.kv_cache import (
    PagedKVCache,
    RopeMode,
    TIRPagedKVCache,
    check_thread_limits,
    get_max_num_threads_per_block,
)
from tilesmith.relax.frontend.nn.llm.tree_attn import (
    PAGE_SIZE,
    tree_attn,
    tree_attn_with_paged_kv_cache,
)
from tilesmith.runtime import get_global_func
from tilesmith.runtime.container import ShapeTuple
from tilesmith.support.errors import (
    ExecutionError,
    OutOfMemoryError,
    ShapeError,
    TargetError,
    UnknownNameError,
    UnsupportedError,
)

HEADS, KV_HEADS, FEATURES, THETA = 4, 2, 8, 10000.0
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}  # fmt: skip
LONG = {
    "rope_type": "longrope", "max_position_embeddings": 64, "original_max_position_embeddings": 16,
}  # fmt: skip


def frequencies(scaling=None, factors=None):
    """Return the angles of position 1 and the growth, by the papers' formulas in float64."""
    plain = THETA ** (-np.arange(0, FEATURES, 2) / FEATURES)
    kind = (scaling or {}).get("rope_type")
    if kind == "longrope":
        return plain / factors, np.sqrt(1 + np.log(64 / 16) / np.log(16))
    if kind != "llama3":
        return plain, 1.0
    length, made = scaling["original_max_position_embeddings"], []
    for each in plain:
        wave = 2 * np.pi / each
        if wave < length / scaling["high_freq_factor"]:
            made.append(each)
        elif wave > length / scaling["low_freq_factor"]:
            made.append(each / scaling["factor"])
        else:
            part = length / wave - scaling["low_freq_factor"]
            part /= scaling["high_freq_factor"] - scaling["low_freq_factor"]
            made.append((1 - part) * each / scaling["factor"] + part * each)
    return np.array(made), 1.0


def turned(x, positions, scaling=None, factors=None):
    """Return (tokens, heads, features) turned by positions."""
    plain, growth = frequencies(scaling, factors)
    angles = np.asarray(positions)[:, None, None] * np.concatenate([plain, plain])
    half = FEATURES // 2
    other = np.concatenate([-x[..., half:], x[..., :half]], -1)
    return (x * np.cos(angles) + other * np.sin(angles)) * growth


def attention(q, k, v, visible, scale=FEATURES**-0.5):
    """Return attention of (tokens, heads, features) in float64, and log2 of the sums."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    scores = np.einsum("ihd,jhd->hij", q, k).astype("float64") * scale
    weights = np.where(visible, np.exp(scores), 0)
    found = np.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), v)
    return found, np.log2(weights.sum(-1)).T


# Rotary positions


@pytest.mark.parametrize("scaling", [{}, LLAMA3], ids=["default", "llama3"])
def test_llama_rope_turns_the_end_of_a_text(scaling):
    class Model(nn.Module):
        def forward(self, qkv: nn.Tensor, total: int):
            return rope.llama_rope(qkv, total, THETA, 1.0, HEADS, KV_HEADS, scaling)

    inputs = {"qkv": spec.Tensor([2, "n", 8, FEATURES], "float32"), "total": int}
    module, _ = Model().export_tvm({"forward": inputs})
    x, places = random(2, 3, 8, FEATURES), [37, 38, 39]
    found = relax.interpreter.run(module, "forward", x, (40,))
    for batch in range(2):
        q, k, v = np.split(x[batch], [HEADS, HEADS + KV_HEADS], 1)
        np.testing.assert_allclose(found[0][batch], turned(q, places, scaling), atol=1e-5)
        np.testing.assert_allclose(found[1][batch], turned(k, places, scaling), atol=1e-5)
        np.testing.assert_array_equal(found[2][batch], v)


@pytest.mark.parametrize("kind", ["default", "off", "part", "longrope"])
def test_rope_with_positions(kind):
    count = 4 if kind == "part" else FEATURES
    kernel = rope.llama_rope_with_position_map(
        THETA, 1.0, FEATURES, HEADS, KV_HEADS, "float32", LONG if kind == "longrope" else {}, count
    )
    x, places = random(5, 8, FEATURES), np.array([3, 0, 9, 9, 60], "int32")
    factors = np.array([1.0, 1.1, 2.0, 4.0], "float32")
    last = factors if kind == "longrope" else int(kind != "off")
    results = [np.zeros((5, n, FEATURES), "float32") for n in (HEADS, KV_HEADS, KV_HEADS)]
    tilesmith.tir.interpreter.run(kernel, x, places, *results, last)
    q, k, v = np.split(x, [HEADS, HEADS + KV_HEADS], 1)
    np.testing.assert_array_equal(results[2], v)
    if kind == "off":
        np.testing.assert_array_equal(results[0], q)
        return
    if kind == "part":
        np.testing.assert_array_equal(results[0][..., 4:], q[..., 4:])
        assert not np.allclose(results[0][0, :, :4], q[0, :, :4])
        return
    scaling = (LONG, factors) if kind == "longrope" else ()
    for found, given in zip(results, (q, k)):
        np.testing.assert_allclose(found, turned(given, places, *scaling), atol=1e-5)


def test_scalings_that_are_unknown_are_refused():
    with pytest.raises(UnsupportedError, match="'yarn'"):
        rope.switch_rope_freq_func({"rope_type": "yarn"})
    with pytest.raises(UnknownNameError, match="'llama3' lacks 'factor'"):
        rope.switch_rope_freq_func({"rope_type": "llama3"})
    with pytest.raises(ShapeError, match="3 of 8 features"):
        rope.llama_rope_with_position_map(THETA, 1.0, 8, 4, 2, "float32", {}, 3)


# Trees of tokens

PARENTS = [[-1, 0, 0, 1], [-1, 0, 1]]
"""For each tree the token above each one."""


def above(parents):
    """Return which tokens each one sees: itself and those above it."""
    seen = np.eye(len(parents), dtype=bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            seen[token] |= seen[parent]
    return seen


def orders(parents):
    """Return the numbers of the tokens before and after those below them."""
    before, after, counts = {}, {}, [0, 0]

    def walk(token):
        before[token], counts[0] = counts[0], counts[0] + 1
        for child, parent in enumerate(parents):
            if parent == token:
                walk(child)
        after[token], counts[1] = counts[1], counts[1] + 1

    walk(0)
    return [[before[token], after[token]] for token in range(len(parents))]


def array(values, dtype="int32"):
    return tilesmith.nd.array(np.array(values, dtype))


@pytest.mark.parametrize("rotary", [0, 1])
def test_attention_of_trees(rotary):
    kernel = tree_attn(KV_HEADS, HEADS, FEATURES, "float32", {}, "llvm")
    built = tilesmith.build(kernel, target="llvm")
    q, k, v = (
        random(7, n, FEATURES, seed=n + i) for i, n in enumerate((HEADS, KV_HEADS, KV_HEADS))
    )
    masks = [above(parents) for parents in PARENTS]
    places = [5, 6, 6, 7, 9, 10, 11]
    mask = np.concatenate([one.reshape(-1) for one in masks])
    output, lse = array(np.zeros_like(q), "float32"), array(np.zeros((7, HEADS)), "float32")
    built["batch_tree_attn"](
        *map(tilesmith.nd.array, (q,)), array([0, 4, 7]), *map(tilesmith.nd.array, (k, v)),
        array([0, 4, 7]), array(places), array([0, 16, 25]), array(mask), output, lse,
        rotary, 1.0, THETA, FEATURES**-0.5,
    )  # fmt: skip
    if rotary:
        q, k = turned(q, places), turned(k, places)
    for (first, last), seen in zip(((0, 4), (4, 7)), masks):
        part = slice(first, last)
        expected, sums = attention(q[part], k[part], v[part], seen)
        np.testing.assert_allclose(output.numpy()[part], expected, atol=1e-5)
        np.testing.assert_allclose(lse.numpy()[part], sums, atol=1e-5)


@pytest.mark.parametrize("rotary", [0, 1])
def test_attention_of_trees_to_pages(rotary):
    kernel = tree_attn_with_paged_kv_cache(KV_HEADS, HEADS, FEATURES, "float32", {}, "llvm")
    built = tilesmith.build(kernel, target="llvm")
    lengths, page_lists = [PAGE_SIZE + 6, 3], [[4, 1], [2]]  # the second is a tree only
    pages = np.zeros((5, 2, KV_HEADS, PAGE_SIZE, FEATURES), "float32")
    q = random(7, HEADS, FEATURES)
    stored = [random(2, n, KV_HEADS, FEATURES, seed=n) for n in lengths]
    for both, numbers in zip(stored, page_lists):
        for place in range(both.shape[1]):
            page, slot = numbers[place // PAGE_SIZE], place % PAGE_SIZE
            pages[page, :, :, slot] = both[:, place]
    first = PAGE_SIZE + 2
    depths = [[0, 1, 1, 2], [0, 1, 2]]
    places = [first + d for d in depths[0]] + depths[1]
    output, lse = array(np.zeros_like(q), "float32"), array(np.zeros((7, HEADS)), "float32")
    built["tree_attn_paged_kv"](
        0, tilesmith.nd.array(q), array([0, 4, 7]), tilesmith.nd.array(pages), array([0, 2, 3]),
        array([4, 1, 2]), array([6, 3]), array([0, 0]), array(places), output, lse, rotary, 1.0,
        THETA, FEATURES**-0.5, array([0, 4, 7]), array(orders(PARENTS[0]) + orders(PARENTS[1])),
    )  # fmt: skip
    for part, (keys, values), parents, before in zip(
        (slice(0, 4), slice(4, 7)), stored, PARENTS, (first, 0)
    ):
        own = above(parents)
        seen = np.concatenate([np.ones((len(own), before), bool), own], 1)
        query = q[part]
        if rotary:
            query = turned(query, places[part])
            keys = turned(keys, [*range(before), *places[part]])
        expected, sums = attention(query, keys, values, seen)
        np.testing.assert_allclose(output.numpy()[part], expected, atol=1e-5)
        np.testing.assert_allclose(lse.numpy()[part], sums, atol=1e-5)


def test_kernels_are_for_cpus():
    with pytest.raises(UnsupportedError, match="target 'cuda'"):
        tree_attn(2, 4, 8, "float32", {}, "cuda")
    with pytest.raises(ShapeError, match="4 heads of queries cannot share 3"):
        tree_attn(3, 4, 8, "float32", {}, "llvm")


def test_limits_of_threads():
    assert get_max_num_threads_per_block("cuda") == 1024
    assert get_max_num_threads_per_block("llvm") == 1
    check_thread_limits("cuda", 32, 4, 8, 2)
    with pytest.raises(TargetError, match="33 \\* 32 \\* 1"):
        check_thread_limits("cuda", 33, 32, 1, 1)


# Paged caches


def call(name, *args):
    return get_global_func("vm.builtin." + name)(*args)


class Model(nn.Module):
    def __init__(self, mode, dtype="float32"):
        self.mode = mode
        self.dtype = dtype

    def create(self, batch: int, total: int, chunk: int):
        return TIRPagedKVCache(
            rope_mode=self.mode,
            max_batch_size=batch,
            max_total_seq_len=total,
            prefill_chunk_size=chunk,
            page_size=4,
            support_sliding_window=0,
            layer_partition=[0, 2],
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            head_dim=FEATURES,
            rope_scale=1.0,
            rope_theta=THETA,
            rope_scaling={},
            rope_ext_factors=None,
            rotary_dim=FEATURES,
            dtype=self.dtype,
            target="llvm",
        )

    def step(self, qkv: nn.Tensor, cache: PagedKVCache):
        first = cache.attention_with_fused_qkv(0, qkv, HEADS)
        second = cache.attention_with_fused_qkv(1, qkv, HEADS, 2.0)
        return first, second, cache.get_query_positions(qkv.shape[1])


SPEC = {
    "create": {"batch": int, "total": int, "chunk": int},
    "step": {
        "qkv": spec.Tensor([1, "n", HEADS + 2 * KV_HEADS, FEATURES], "float32"),
        "cache": spec.Object(PagedKVCache),
    },
}


def expected_attention(tokens, mode, new):
    """Return the attention of the last ``new`` tokens of a text, for both layers."""
    q, k, v = np.split(np.concatenate(tokens), [HEADS, HEADS + KV_HEADS], 1)
    places = np.arange(len(q))
    if mode is not RopeMode.NONE:
        q, k = turned(q, places), turned(k, places)
    seen = places[:, None] >= places
    scale = FEATURES**-0.5
    return [attention(q, k, v, seen, scale * f)[0][-new:] for f in (1, 2)]


@pytest.mark.parametrize("mode", list(RopeMode), ids=lambda mode: mode.name)
def test_a_paged_cache_keeps_texts_apart(mode):
    module, _ = Model(mode).export_tvm(SPEC)
    machine = relax.VirtualMachine(relax.build(module), tilesmith.cpu())
    cache = machine["create"](ShapeTuple([3]), ShapeTuple([64]), ShapeTuple([16]))
    texts, rng = {7: [], 3: []}, np.random.default_rng(0)
    for number in texts:
        call("kv_state_add_sequence", cache, number)

    def step(counts):
        call("kv_state_begin_forward", cache, ShapeTuple(counts), ShapeTuple(counts.values()))
        x = rng.standard_normal((1, sum(counts.values()), 8, FEATURES)).astype("float32")
        *layers, positions = machine["step"](x, cache)
        call("kv_state_end_forward", cache)
        first = 0
        for number, count in counts.items():
            part = slice(first, first + count)
            texts[number].append(x[0, part])
            length = sum([len(one) for one in texts[number]])
            assert positions.numpy()[part].tolist() == list(range(length - count, length))
            for found, wanted in zip(layers, expected_attention(texts[number], mode, count)):
                np.testing.assert_allclose(found.numpy()[0, part], wanted, atol=1e-5)
            first += count

    step({7: 5, 3: 3})
    step({3: 1, 7: 1})
    call("kv_state_fork_sequence", cache, 7, 5, 5)
    texts[5] = [texts[7][0]]
    step({7: 2, 5: 4, 3: 1})
    call("kv_state_popn", cache, 7, 3)
    texts[7] = [np.concatenate(texts[7])[:-3]]
    step({7: 6})
    assert call("attention_kv_cache_get_total_sequence_length", cache) == 11 + 9 + 5
    free = call("attention_kv_cache_get_num_available_pages", cache)
    call("kv_state_remove_sequence", cache, 5)
    assert call("attention_kv_cache_get_num_available_pages", cache) == free + 3
    keys, values = (array(np.zeros((2, 2, KV_HEADS, FEATURES)), "float32") for _ in range(2))
    call("attention_kv_cache_debug_get_kv", cache, 3, 1, 3, keys, values)
    kept = np.concatenate(texts[3])[1:3, HEADS + KV_HEADS :]
    np.testing.assert_array_equal(values.numpy(), [kept, kept])
    call("kv_state_clear", cache)
    assert call("attention_kv_cache_get_total_sequence_length", cache) == 0


FRESH = """
import sys, numpy
from tilesmith.runtime import get_global_func, load_module
from tilesmith.runtime.container import ShapeTuple
model = load_module(sys.argv[1])
cache = model["create"](ShapeTuple([1]), ShapeTuple([8]), ShapeTuple([16]))
get_global_func("vm.builtin.kv_state_add_sequence")(cache, 0)
get_global_func("vm.builtin.kv_state_begin_forward")(cache, ShapeTuple([0]), ShapeTuple([2]))
numpy.save(sys.argv[3], model["step"](numpy.load(sys.argv[2]), cache)[0].numpy())
assert not [name for name in sys.modules if name.startswith(("tilesmith.tir", "tilesmith.relax"))]
"""


def test_a_saved_model_makes_caches_in_a_fresh_process(tmp_path):
    module, _ = Model(RopeMode.INLINE).export_tvm(SPEC)
    relax.build(module).save(str(tmp_path / "model.tsm"))
    x = random(1, 2, 8, FEATURES)
    np.save(tmp_path / "x.npy", x)
    paths = [str(tmp_path / name) for name in ("model.tsm", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-c", FRESH, *paths], check=True)
    expected = expected_attention([x[0]], RopeMode.INLINE, 2)[0]
    np.testing.assert_allclose(np.load(paths[2])[0], expected, atol=1e-5)


def test_what_a_paged_cache_refuses():
    module, _ = Model(RopeMode.NONE).export_tvm(SPEC)
    machine = relax.VirtualMachine(relax.build(module), tilesmith.cpu())
    cache = machine["create"](ShapeTuple([1]), ShapeTuple([8]), ShapeTuple([16]))
    x = random(1, 2, 8, FEATURES)
    with pytest.raises(UnknownNameError, match="no sequence 0"):
        call("kv_state_begin_forward", cache, ShapeTuple([0]), ShapeTuple([2]))
    call("kv_state_add_sequence", cache, 0)
    with pytest.raises(ExecutionError, match="outside of a step"):
        machine["step"](x, cache)
    with pytest.raises(OutOfMemoryError, match="room for 1 sequences"):
        call("kv_state_add_sequence", cache, 1)
    with pytest.raises(OutOfMemoryError, match="pages of 4 tokens"):
        call("kv_state_begin_forward", cache, ShapeTuple([0]), ShapeTuple([13]))
    with pytest.raises(ShapeError, match="17 new tokens"):
        call("kv_state_begin_forward", cache, ShapeTuple([0]), ShapeTuple([17]))
    with pytest.raises(UnsupportedError, match="sliding window"):
        call("attention_kv_cache_enable_sliding_window_for_seq", cache, 0, 4, 1)
    call("kv_state_begin_forward", cache, ShapeTuple([0]), ShapeTuple([3]))
    with pytest.raises(ShapeError, match="begun for 3"):
        machine["step"](x, cache)
    with pytest.raises(UnsupportedError, match="'longrope'"):
        TIRPagedKVCache(
            RopeMode.NORMAL, 1, 8, 8, 4, 0, [0, 1], 1, HEADS, KV_HEADS, FEATURES, 1.0, THETA, LONG,
            np.ones(4), FEATURES, "float32", "llvm",
        )  # fmt: skip
