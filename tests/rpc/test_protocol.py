"""What travels: every value comes back equal, and strange bytes give an error of ours."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.error import RPCError, TypeMismatchError
from tilesmith.rpc import protocol
from tilesmith.rpc.protocol import (
    HEAD,
    DeviceRecord,
    DtypeRecord,
    Frame,
    Kind,
    ObjectKind,
    ObjectRecord,
    TensorRecord,
    decode,
    encode,
    parse_head,
)
from tilesmith.rpc.service import Service

INTS = st.integers(-(1 << 63), (1 << 63) - 1)
DEVICES = st.builds(DeviceRecord, st.integers(0, 1 << 30), st.integers(-1, 1 << 30))
NUMBERS = st.integers(0, (1 << 64) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAVES = st.one_of(
    st.none(), st.booleans(), INTS, st.floats(allow_nan=False), TEXTS, st.binary(max_size=20),
    DEVICES, st.builds(DtypeRecord, TEXTS),
    st.builds(TensorRecord, NUMBERS, DEVICES, TEXTS,
              st.lists(st.integers(0, 1 << 40), max_size=4).map(tuple)),
    st.builds(ObjectRecord, st.sampled_from(ObjectKind), NUMBERS, TEXTS,
              st.lists(TEXTS, max_size=3).map(tuple)),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(TEXTS, INTS), inner, max_size=4),
    ),
    max_leaves=12,
)


def kinds(value):
    """The value with its classes: a record is a tuple, too, and would be equal to one."""
    if isinstance(value, dict):
        return dict, {key: kinds(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [kinds(item) for item in value]
    return type(value), value


@given(VALUES)
def test_values_come_back(value):
    assert kinds(decode(encode(value))) == kinds(value)


def test_a_float_that_is_no_number_comes_back():
    assert math.isnan(decode(encode(math.nan)))


@given(st.binary(max_size=64))
def test_strange_bytes_are_values_or_an_error(content):
    try:
        decode(content)
    except RPCError:
        pass


@given(VALUES, st.data())
def test_damaged_messages_are_values_or_an_error(value, data):
    content = encode(value)
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    try:
        decode(content)
    except RPCError:
        pass


@given(VALUES, st.data())
def test_a_part_of_a_message_is_an_error(value, data):
    content = encode(value)
    with pytest.raises(RPCError, match="ends within|after its end"):
        decode(content[: data.draw(st.integers(0, len(content) - 1))])


def test_bytes_after_the_end_are_an_error():
    with pytest.raises(RPCError, match="after its end"):
        decode(encode(3) + b"x")


@pytest.mark.parametrize(
    "content",
    [
        bytes([7]) + struct.pack("<I", 0xFFFFFFFF),  # a list of four billion elements
        bytes([9]) + struct.pack("<I", 0x7FFFFFFF) + b"\0\0",
        bytes([5]) + struct.pack("<I", 0xFFFFFFFF) + b"abc",
        bytes([4]) + struct.pack("<I", 2) + b"\xff\xfe",
        bytes([1, 2]),
        bytes([8]) + struct.pack("<I", 1) + bytes([6]) + struct.pack("<I", 0) + bytes([0]),
        b"".join([bytes([6]) + struct.pack("<I", 1)] * 60) + bytes([0]),
        bytes([255]),
        b"",
    ],
)
def test_messages_that_lie_are_refused(content):
    with pytest.raises(RPCError, match="not a message"):
        decode(content)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1 << 63, "\ud800", 1j])
def test_what_cannot_be_sent_is_said(value):
    with pytest.raises(TypeMismatchError):
        encode([value])


def test_values_that_nest_too_deep_are_refused():
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(TypeMismatchError, match="nested"):
        encode(value)


def test_large_bodies_are_refused_before_they_are_read():
    head = Frame(Kind.REQUEST, 1, 7, b"abc").head
    assert parse_head(head) == (Kind.REQUEST, 1, 7, 3)
    with pytest.raises(RPCError, match="allowed"):
        parse_head(HEAD.pack(1, 1, 0, 7, protocol.LARGEST_BODY + 1))
    with pytest.raises(TypeMismatchError, match="too many"):
        encode(bytes(protocol.LARGEST_BODY + 1))


@given(st.binary(min_size=HEAD.size, max_size=HEAD.size))
def test_strange_heads_are_frames_or_an_error(head):
    try:
        parse_head(head)
    except RPCError:
        pass


@given(st.integers(0, 60), st.one_of(VALUES, st.lists(VALUES, max_size=4)), st.booleans())
def test_a_service_answers_any_request(tmp_path_factory, operation, value, is_whole):
    """With a result or a fault, never with an exception."""
    if not hasattr(test_a_service_answers_any_request, "service"):
        folder = tmp_path_factory.mktemp("service")
        test_a_service_answers_any_request.service = Service(folder)
    body = encode(value if is_whole else [b"", *value] if isinstance(value, list) else [value])
    kind, answer = test_a_service_answers_any_request.service.answer(operation, body)
    assert kind in (Kind.RESULT, Kind.FAULT)
    decode(answer)
