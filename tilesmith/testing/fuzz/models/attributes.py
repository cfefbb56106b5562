"""Mutations of the attributes of nodes."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, ModelProto, TensorProto, defs, helper

from tilesmith.testing.fuzz.models.pick import NotApplicable, Pick, mutation, nodes

__all__ = ["any_value"]

_TEXTS = ("", "nonsense", "NOTSET", "SAME_UPPER", "linear", "constant", "a->", "é", "\udcff", "1")
_FLOATS = (0.0, -1.0, float("nan"), float("inf"), -float("inf"), 1e38, 1e-45, 0.5)


def any_value(pick: Pick) -> Any:
    """Return a value for an attribute: number, text, list or tensor."""
    what = pick.randrange(7)
    if what == 0:
        return pick.integer()
    if what == 1:
        return pick.one(_FLOATS)
    if what == 2:
        return pick.one(_TEXTS[:8])
    if what == 3:
        return [pick.integer() for _ in range(pick.randint(1, 5))]
    if what == 4:
        return [pick.one(_FLOATS) for _ in range(pick.randint(1, 3))]
    if what == 5:
        return [pick.one(_TEXTS[:8]) for _ in range(pick.randint(1, 3))]
    return helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0])


def _attribute(pick: Pick, model: ModelProto, *kinds: int) -> Any:
    return pick.one(
        [
            attribute
            for node in nodes(model)
            for attribute in node.attribute
            if not kinds or attribute.type in kinds
        ]
    )


def _owner(pick: Pick, model: ModelProto) -> Any:
    return pick.node(model, lambda node: len(node.attribute) > 0)


@mutation("attribute")
def drop_attribute(pick: Pick, model: ModelProto) -> None:
    """Take an attribute away."""
    node = _owner(pick, model)
    del node.attribute[pick.randrange(len(node.attribute))]


@mutation("attribute")
def repeat_attribute(pick: Pick, model: ModelProto) -> None:
    """Give an attribute twice."""
    node = _owner(pick, model)
    node.attribute.add().CopyFrom(pick.one(node.attribute))


@mutation("attribute")
def rename_attribute(pick: Pick, model: ModelProto) -> None:
    """Give an attribute the name of another one, or one that nobody knows."""
    names = [attribute.name for node in nodes(model) for attribute in node.attribute]
    _attribute(pick, model).name = pick.one([*names, "", "unknown", "axes", "axis"])


@mutation("attribute")
def other_value(pick: Pick, model: ModelProto) -> None:
    """Replace the value of an attribute by one of another type."""
    attribute = _attribute(pick, model)
    attribute.CopyFrom(helper.make_attribute(attribute.name, any_value(pick)))


@mutation("attribute")
def other_number(pick: Pick, model: ModelProto) -> None:
    """Replace a number by a negative, zero or huge one."""
    attribute = _attribute(pick, model, AttributeProto.INT, AttributeProto.FLOAT)
    if attribute.type == AttributeProto.INT:
        attribute.i = pick.integer()
    else:
        attribute.f = pick.one(_FLOATS)


@mutation("attribute")
def other_item(pick: Pick, model: ModelProto) -> None:
    """Replace an item of a list of numbers."""
    attribute = _attribute(pick, model, AttributeProto.INTS, AttributeProto.FLOATS)
    if attribute.ints:
        attribute.ints[pick.randrange(len(attribute.ints))] = pick.integer()
    elif attribute.floats:
        attribute.floats[pick.randrange(len(attribute.floats))] = pick.one(_FLOATS)


@mutation("attribute")
def near_number(pick: Pick, model: ModelProto) -> None:
    """Change a whole number by a little, so that the model is often still valid."""
    attribute = _attribute(pick, model, AttributeProto.INT, AttributeProto.INTS)
    step = pick.one([-2, -1, 1, 2])
    if attribute.type == AttributeProto.INT:
        attribute.i = _in_range(attribute.i + step)
    elif attribute.ints:
        place = pick.randrange(len(attribute.ints))
        attribute.ints[place] = _in_range(attribute.ints[place] + step)


def _in_range(number: int) -> int:
    return max(-(2**63), min(number, 2**63 - 1))


@mutation("attribute")
def other_length(pick: Pick, model: ModelProto) -> None:
    """Make a list longer, shorter or empty."""
    attribute = _attribute(pick, model, AttributeProto.INTS, AttributeProto.FLOATS)
    listed = attribute.ints if attribute.type == AttributeProto.INTS else attribute.floats
    what = pick.randrange(4)
    if what == 0:
        del listed[:]
    elif what == 1:
        del listed[-1:]
    else:
        listed.extend([1] * pick.one([1, 2, 7]))


@mutation("attribute")
def other_text(pick: Pick, model: ModelProto) -> None:
    """Replace a text, also by bytes that are not text."""
    attribute = _attribute(pick, model, AttributeProto.STRING)
    attribute.s = pick.one([*[text.encode(errors="replace") for text in _TEXTS], b"\xff\xfe"])


@mutation("attribute")
def other_equation(pick: Pick, model: ModelProto) -> None:
    """Change characters of a text."""
    attribute = _attribute(pick, model, AttributeProto.STRING)
    text = bytearray(attribute.s)
    if not text:
        raise NotApplicable
    for _ in range(pick.randint(1, 3)):
        text[pick.randrange(len(text))] = pick.choice(b"ijk,->. Z9")
    attribute.s = bytes(text)


@mutation("attribute")
def other_kind_of_attribute(pick: Pick, model: ModelProto) -> None:
    """Say that an attribute has another type than its value."""
    _attribute(pick, model).type = pick.one(sorted(AttributeProto.AttributeType.values()))


@mutation("attribute")
def reference_attribute(pick: Pick, model: ModelProto) -> None:
    """Refer to an attribute of a function around, which may not be there."""
    attribute = _attribute(pick, model)
    kept = attribute.type
    name = attribute.name
    attribute.Clear()
    attribute.name, attribute.type = name, kept
    attribute.ref_attr_name = pick.one(["scale", "missing", name])


@mutation("attribute")
def schema_attribute(pick: Pick, model: ModelProto) -> None:
    """Add an attribute that the operator knows, with an odd value."""
    node = pick.node(model)
    version = max([item.version for item in model.opset_import if not item.domain], default=17)
    try:
        schema = defs.get_schema(node.op_type, max(1, min(version, 25)), "")
    except defs.SchemaError:
        raise NotApplicable from None
    name = pick.one(sorted(schema.attributes))
    kind: Any = schema.attributes[name].type
    value: Any = any_value(pick)
    if pick.random() < 0.75:
        value = _value_of_kind(pick, kind.name, value)
    for attribute in list(node.attribute):
        if attribute.name == name:
            node.attribute.remove(attribute)
    node.attribute.append(helper.make_attribute(name, value))


def _value_of_kind(pick: Pick, kind: str, other: Any) -> Any:
    if kind == "INT":
        return pick.integer()
    if kind == "FLOAT":
        return pick.one(_FLOATS)
    if kind == "STRING":
        return pick.one(_TEXTS[:8])
    if kind == "INTS":
        return [pick.integer() for _ in range(pick.randint(1, 5))]
    if kind == "FLOATS":
        return [pick.one(_FLOATS) for _ in range(pick.randint(1, 4))]
    return other


@mutation("attribute")
def unknown_attribute(pick: Pick, model: ModelProto) -> None:
    """Add an attribute that no operator has."""
    pick.node(model).attribute.append(helper.make_attribute("unknown", any_value(pick)))
