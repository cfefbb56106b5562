"""Arguments that a primitive does not take are refused by a message that says what it takes."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import refused

A_MAP = "'index_map' is an IndexMap or a function of the indices that gives the new ones, got"


def first(sch):
    return sch.get_loops("B")[0]


@pytest.mark.parametrize(
    "step, text",
    [
        (lambda s: s.transform_layout("B", ("write", 0), 5), f"{A_MAP} 5"),
        (lambda s: s.transform_layout("B", ("write", 0), None), f"{A_MAP} None"),
        (lambda s: s.transform_block_layout("B", 5), f"{A_MAP} 5"),
        (lambda s: s.reindex_cache_read("C", 0, "local", "i"), f"{A_MAP} 'i'"),
        (
            lambda s: s.transform_layout("B", ("write", "x"), lambda i, j: (j, i)),
            "'buffer' is ('read' or 'write', whole number), got 'x'",
        ),
        (
            lambda s: s.annotate_buffer_access("C", 0, "write", 3),
            "'gen_new_ranges' is a function of the block's iterators",
        ),
        (lambda s: s.sample_categorical([1], 3), "'probs' is a list of numbers, got 3"),
        (lambda s: s.sample_categorical([1], ["x"]), "'probs' is a list of numbers, got ['x']"),
        (
            lambda s: s.sample_perfect_tile(first(s), 2, decision=["a", 1]),
            "'decision' is a whole number, got 'a'",
        ),
        (lambda s: s.pad_einsum("B", 3), "'padding' is a list of whole numbers, got 3"),
        (lambda s: s.cache_read("C", 0, "local", 3), "'consumer_blocks' is a list of blocks"),
    ],
)
def test_wrong_arguments(step, text):
    refused(programs.elementwise, step, text)
