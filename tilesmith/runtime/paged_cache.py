"""Keeps keys and values of many sequences in pages, and registers the functions that manage them.

    cache = vm["create_cache"](…)
    get_global_func("vm.builtin.kv_state_add_sequence")(cache, 7)            # sequence 7
    get_global_func("vm.builtin.kv_state_begin_forward")(cache, ShapeTuple([7]), ShapeTuple([5]))
    vm["prefill"](…, cache)                                                  # 5 tokens of it
    get_global_func("vm.builtin.kv_state_end_forward")(cache)

A page holds a number of tokens of one sequence, for each layer. The model's own functions divide
new tokens into queries, keys and values, and compute the attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import NDArray, array, empty_cpu
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import (
    ExecutionError,
    OutOfMemoryError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

__all__ = ["PagedCache"]


@dataclass
class _Sequence:
    """The pages of a sequence, and how many tokens they hold."""

    pages: list[int] = field(default_factory=list)
    length: int = 0


@dataclass
class _Step:
    """What a forward step needs to know: where its tokens belong and what they see."""

    positions: numpy.ndarray
    page_of: numpy.ndarray
    slot_of: numpy.ndarray
    tables: list[NDArray]
    """q_indptr, page_indptr, page_values, length_info."""


class PagedCache:
    """Pages of keys and values; ``sizes`` are the most sequences, tokens, and new tokens of a step,
    and the tokens of a page.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        model: Sequence[int],
        dtype: str,
        split: Callable[..., Any],
        attention: Callable[..., Any],
    ) -> None:
        self.most_sequences, most_tokens, self.chunk, self.page_size = [int(s) for s in sizes[:4]]
        layers, self.heads, self.kv_heads, self.features = [int(size) for size in model]
        # a sequence may leave its last page almost empty
        count = -(-most_tokens // self.page_size) + self.most_sequences
        shape = (count, 2, self.kv_heads, self.page_size, self.features)
        self.pages = [empty_cpu(shape, DataType(dtype)) for _ in range(layers)]
        self.views = [page.numpy_view() for page in self.pages]
        for one in self.views:
            one[...] = 0
        self.free = list(range(count - 1, -1, -1))
        self.sequences: dict[int, _Sequence] = {}
        self.step: _Step | None = None
        self.split = split
        self.attention = attention

    def sequence(self, number: int) -> _Sequence:
        """Return a sequence. Raises UnknownNameError if there is none."""
        found = self.sequences.get(int(number))
        if found is None:
            raise UnknownNameError(
                f"the cache has no sequence {number}", notes=("kv_state_add_sequence adds it",)
            )
        return found

    def add(self, number: int) -> None:
        """Add an empty sequence."""
        if int(number) in self.sequences:
            raise ExecutionError(f"the cache has a sequence {number} already")
        if len(self.sequences) == self.most_sequences:
            raise OutOfMemoryError(
                f"the cache has room for {self.most_sequences} sequences",
                notes=("remove one, or create it with a larger max_batch_size",),
            )
        self.sequences[int(number)] = _Sequence()

    def remove(self, number: int) -> None:
        """Remove a sequence."""
        self.free += self.sequence(number).pages
        del self.sequences[int(number)]

    def fork(self, parent: int, child: int, length: int = -1) -> None:
        """Add a sequence that begins as another one does: with its first ``length`` tokens (-1:
        all).
        """
        source = self.sequence(parent)
        count = source.length if length == -1 else int(length)
        if not 0 <= count <= source.length:
            raise ExecutionError(f"sequence {parent} of {source.length} tokens has not {count}")
        self.add(child)
        made = self.sequence(child)
        self._grow(made, count)
        for old, new in zip(source.pages, made.pages):
            for view in self.views:
                view[new] = view[old]

    def pop(self, number: int, count: int) -> None:
        """Forget the last tokens of a sequence."""
        found = self.sequence(number)
        if not 0 <= count <= found.length:
            raise ExecutionError(f"sequence {number} of {found.length} tokens cannot give {count}")
        found.length -= int(count)
        while len(found.pages) > -(-found.length // self.page_size):
            self.free.append(found.pages.pop())

    def _grow(self, found: _Sequence, count: int) -> None:
        needed = -(-(found.length + count) // self.page_size) - len(found.pages)
        if needed > len(self.free):
            raise OutOfMemoryError(
                f"{needed} pages of {self.page_size} tokens are needed, {len(self.free)} are free",
                notes=("remove sequences, or create it with a larger max_total_seq_len",),
            )
        found.pages += [self.free.pop() for _ in range(needed)]
        found.length += count

    def begin(self, numbers: Sequence[int], counts: Sequence[int]) -> None:
        """Make room for ``counts`` new tokens of sequences; the model may be called then."""
        if self.step is not None:
            raise ExecutionError("a step is under way", notes=("kv_state_end_forward ends it",))
        if len(numbers) != len(counts) or len(set(numbers)) != len(numbers):
            raise ShapeError(f"{len(counts)} numbers of tokens for the sequences {list(numbers)}")
        if sum(counts) > self.chunk:
            raise ShapeError(
                f"{sum(counts)} new tokens, but a step takes {self.chunk} at most",
                notes=("prefill in pieces, or create the cache with a larger chunk size",),
            )
        found = [self.sequence(number) for number in numbers]
        positions: list[int] = []
        page_of: list[int] = []
        for one, count in zip(found, counts):
            if count < 1:
                raise ShapeError(f"a step adds at least one token to a sequence, got {count}")
            first = one.length
            self._grow(one, int(count))
            positions += range(first, one.length)
            page_of += [one.pages[place // self.page_size] for place in range(first, one.length)]
        where = numpy.array(positions, "int32")
        tables = [
            numpy.cumsum([0, *counts]),
            numpy.cumsum([0, *[len(one.pages) for one in found]]),
            [page for one in found for page in one.pages],
            [(one.length - 1) % self.page_size + 1 for one in found],
        ]
        self.step = _Step(
            where,
            numpy.array(page_of, "int32"),
            where % self.page_size,
            [array(numpy.array(table, "int32")) for table in tables],
        )

    def current(self) -> _Step:
        """Return the step under way. Raises ExecutionError if there is none."""
        if self.step is None:
            raise ExecutionError(
                "the model is called outside of a step of its cache",
                notes=("call vm.builtin.kv_state_begin_forward before",),
            )
        return self.step

    def attend(self, layer: int, factor: float, qkv: NDArray, output: NDArray) -> None:
        """Store the new keys and values of a layer; write the queries' attention."""
        step = self.current()
        if qkv.shape[0] != len(step.positions):
            raise ShapeError(
                f"{qkv.shape[0]} tokens in a step that was begun for {len(step.positions)}"
            )
        if not 0 <= layer < len(self.pages):
            raise ShapeError(f"the cache has {len(self.pages)} layers, there is no {layer}")
        positions = array(step.positions)
        query, key, value = self.split(qkv, positions)
        view = self.views[layer]
        view[step.page_of, 0, :, step.slot_of] = key.numpy_view()
        view[step.page_of, 1, :, step.slot_of] = value.numpy_view()
        q_indptr, page_indptr, page_values, length_info = step.tables
        scale = array(numpy.array([factor], "float32"))
        found = self.attention(
            query, q_indptr, self.pages[layer], page_indptr, page_values, length_info, positions,
            scale,
        )  # fmt: skip
        output.copyfrom(found)

    def stored(self, number: int, first: int, last: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Return keys and values of tokens of a sequence: (layers, tokens, heads, features)."""
        found = self.sequence(number)
        if not 0 <= first <= last <= found.length:
            raise ShapeError(f"sequence {number} of {found.length} tokens has no {first}:{last}")
        places = numpy.arange(first, last)
        pages = numpy.array(found.pages, "int64")[places // self.page_size]
        slots = places % self.page_size
        keys, values = [
            numpy.stack([view[pages, which, :, slots] for view in self.views]) for which in (0, 1)
        ]
        return keys, values


def _cache(value: Any) -> PagedCache:
    if not isinstance(value, PagedCache):
        raise TypeMismatchError(f"a paged cache is needed, got {type(value).__name__}")
    return value


@register_func("vm.builtin.paged_attention_kv_cache_create", override=True)
def create(
    sizes: Sequence[int],
    model: Sequence[int],
    dtype: str,
    split: Callable[..., Any],
    attention: Callable[..., Any],
) -> PagedCache:
    """Return a new cache."""
    if len(sizes) > 4 and sizes[4]:
        raise UnsupportedError(
            "a paged cache has no sliding window",
            notes=("create it with support_sliding_window=0",),
        )
    return PagedCache(sizes, model, dtype, split, attention)


@register_func("vm.builtin.attention_kv_cache_attention_with_fused_qkv", override=True)
def attention_with_fused_qkv(
    cache: Any, layer: int, factor: float, qkv: NDArray, output: NDArray
) -> None:
    """Store new keys and values; write the attention of new queries."""
    _cache(cache).attend(int(layer), float(factor), qkv, output)


@register_func("vm.builtin.attention_kv_cache_get_query_positions", override=True)
def get_query_positions(cache: Any) -> NDArray:
    """Return the positions of the tokens of a step."""
    return array(_cache(cache).current().positions)


@register_func("vm.builtin.attention_kv_cache_get_num_available_pages", override=True)
def get_num_available_pages(cache: Any) -> int:
    """Return how many pages are free."""
    return len(_cache(cache).free)


@register_func("vm.builtin.attention_kv_cache_get_total_sequence_length", override=True)
def get_total_sequence_length(cache: Any) -> int:
    """Return how many tokens all sequences have."""
    return sum([one.length for one in _cache(cache).sequences.values()])


@register_func("vm.builtin.attention_kv_cache_debug_get_kv", override=True)
def debug_get_kv(
    cache: Any, number: int, first: int, last: int, keys: NDArray, values: NDArray
) -> None:
    """Copy keys and values of tokens: (layers, tokens, heads, features)."""
    found = _cache(cache).stored(number, int(first), int(last))
    for target, content in zip((keys, values), found):
        target.copyfrom(content)


@register_func("vm.builtin.attention_kv_cache_enable_sliding_window_for_seq", override=True)
def enable_sliding_window(cache: Any, number: int, window: int, sinks: int) -> None:
    """Raise UnsupportedError: all tokens of a sequence are kept."""
    raise UnsupportedError(
        "a paged cache has no sliding window", notes=("kv_state_popn and _remove_sequence forget",)
    )


@register_func("vm.builtin.kv_state_clear", override=True)
def clear(cache: Any) -> None:
    """Remove all sequences."""
    found = _cache(cache)
    found.step = None
    for number in list(found.sequences):
        found.remove(number)


@register_func("vm.builtin.kv_state_add_sequence", override=True)
def add_sequence(cache: Any, number: int) -> None:
    """Add an empty sequence."""
    _cache(cache).add(number)


@register_func("vm.builtin.kv_state_remove_sequence", override=True)
def remove_sequence(cache: Any, number: int) -> None:
    """Remove a sequence."""
    _cache(cache).remove(number)


@register_func("vm.builtin.kv_state_fork_sequence", override=True)
def fork_sequence(cache: Any, parent: int, child: int, length: int = -1) -> None:
    """Add a sequence that begins as another one."""
    _cache(cache).fork(parent, child, length)


@register_func("vm.builtin.kv_state_popn", override=True)
def pop_tokens(cache: Any, number: int, count: int) -> None:
    """Forget the last tokens of a sequence."""
    _cache(cache).pop(number, int(count))


@register_func("vm.builtin.kv_state_begin_forward", override=True)
def begin_forward(
    cache: Any, numbers: Sequence[int], counts: Sequence[int], parents: Any = None
) -> None:
    """Begin a step that adds tokens to sequences."""
    if parents is not None:
        raise UnsupportedError(
            "a paged cache takes new tokens in a row, not as trees",
            notes=("llm.tree_attn has kernels of attention for trees of tokens",),
        )
    _cache(cache).begin([int(one) for one in numbers], [int(one) for one in counts])


@register_func("vm.builtin.kv_state_end_forward", override=True)
def end_forward(cache: Any) -> None:
    """End a step."""
    _cache(cache).current()
    _cache(cache).step = None
