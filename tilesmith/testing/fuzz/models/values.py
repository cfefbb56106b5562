"""Mutations of what a graph says of its values: types, sizes, stored tensors, external files."""

from __future__ import annotations

from typing import Any

import numpy
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tilesmith.testing.fuzz.models.pick import NotApplicable, Pick, graphs, mutation, nodes

__all__ = ["stored_tensors"]

_TYPES = sorted(TensorProto.DataType.values())


def stored_tensors(model: ModelProto) -> list[Any]:
    """Return the weights of all graphs, and the tensors in attributes."""
    found = [tensor for graph in graphs(model) for tensor in graph.initializer]
    for node in nodes(model):
        found += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    return found


def _typed(pick: Pick, model: ModelProto) -> Any:
    """Return the tensor type of an input, an output or another value."""
    items = [
        item for graph in graphs(model) for item in (*graph.input, *graph.output, *graph.value_info)
    ]
    return pick.one(items).type.tensor_type


@mutation("node")
def other_type(pick: Pick, model: ModelProto) -> None:
    """Change the dtype of an input, an output or another value."""
    _typed(pick, model).elem_type = pick.one([*_TYPES, 99, 0])


@mutation("node")
def other_sizes(pick: Pick, model: ModelProto) -> None:
    """Change a size of a value: zero, negative, huge, symbolic, unknown; or its rank."""
    dims = _typed(pick, model).shape.dim
    what = pick.randrange(6)
    if what == 0 or not dims:
        dims.add().dim_value = pick.integer()
    elif what == 1:
        del dims[pick.randrange(len(dims))]
    elif what == 2:
        pick.one(dims).Clear()
    elif what == 3:
        pick.one(dims).dim_param = pick.one(["n", "N", "n + 1", "-1", "a b", "é", "batch", "x"])
    else:
        pick.one(dims).dim_value = pick.integer()


@mutation("node")
def near_sizes(pick: Pick, model: ModelProto) -> None:
    """Change a size of an input by a little, so that the model is often still valid."""
    graph = pick.one([graph for graph in graphs(model) if len(graph.input)])
    dims = pick.one(graph.input).type.tensor_type.shape.dim
    chosen = pick.one([dim for dim in dims if dim.dim_value > 0])
    chosen.dim_value = max(0, chosen.dim_value + pick.one([-2, -1, 1, 3]))


@mutation("node")
def symbolic_sizes(pick: Pick, model: ModelProto) -> None:
    """Leave the sizes of the inputs open, all with different names or all with the same."""
    name = pick.one(["", "n"])
    for place, item in enumerate(model.graph.input):
        for axis, dim in enumerate(item.type.tensor_type.shape.dim):
            if pick.random() < 0.5:
                dim.dim_param = name or f"n{place}_{axis}"


@mutation("node")
def unknown_rank(pick: Pick, model: ModelProto) -> None:
    """Take away all that is known of a value's sizes, or its type."""
    kind = _typed(pick, model)
    kind.ClearField(pick.one(["shape", "elem_type"]))


@mutation("node")
def other_kind(pick: Pick, model: ModelProto) -> None:
    """Make an input a sequence, an optional value, a map or a sparse tensor."""
    graph = pick.one([graph for graph in graphs(model) if len(graph.input)])
    kind = pick.one(graph.input).type
    inner = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    kinds = [
        helper.make_sequence_type_proto(inner), helper.make_optional_type_proto(inner),
        helper.make_map_type_proto(TensorProto.INT64, inner),
        helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2]),
    ]  # fmt: skip
    kind.CopyFrom(pick.one(kinds))


@mutation("node")
def drop_weight(pick: Pick, model: ModelProto) -> None:
    """Take a weight away."""
    graph = pick.one([graph for graph in graphs(model) if len(graph.initializer)])
    graph.initializer.remove(pick.one(graph.initializer))


@mutation("node")
def repeat_weight(pick: Pick, model: ModelProto) -> None:
    """Store a weight twice."""
    graph = pick.one([graph for graph in graphs(model) if len(graph.initializer)])
    graph.initializer.add().CopyFrom(pick.one(graph.initializer))


@mutation("node")
def weight_as_input(pick: Pick, model: ModelProto) -> None:
    """Replace a weight by an input of the same type."""
    graph = pick.one([graph for graph in graphs(model) if len(graph.initializer)])
    weight = pick.one(graph.initializer)
    info = helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims))
    graph.initializer.remove(weight)
    graph.input.append(info)


@mutation("node")
def input_as_weight(pick: Pick, model: ModelProto) -> None:
    """Store values for an input, with other sizes now and then."""
    graph = pick.one([graph for graph in graphs(model) if len(graph.input)])
    item = pick.one(graph.input)
    kind = item.type.tensor_type
    sizes = [dim.dim_value if 0 <= dim.dim_value < 20 else 2 for dim in kind.shape.dim]
    if pick.random() < 0.2:
        sizes = sizes[1:]
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        numbers = numpy.random.default_rng(pick.randrange(9)).integers(0, 3, sizes)
        array = numbers.astype(str if dtype.hasobject else dtype).astype(dtype)  # texts of numbers
        graph.initializer.append(numpy_helper.from_array(array, item.name))
    except (KeyError, TypeError, ValueError):
        raise NotApplicable from None
    if pick.random() < 0.8:
        graph.input.remove(item)


@mutation("node")
def weight_type(pick: Pick, model: ModelProto) -> None:
    """Say another dtype for a stored tensor, without changing its bytes."""
    pick.one(stored_tensors(model)).data_type = pick.one([*_TYPES, 99])


@mutation("node")
def weight_converted(pick: Pick, model: ModelProto) -> None:
    """Store a tensor with another dtype."""
    tensor = pick.one(stored_tensors(model))
    dtype = pick.one(["float16", "float64", "int32", "int64", "int8", "uint8", "bool", "float32"])
    array = _array(tensor)
    if array.dtype.hasobject:
        raise NotApplicable  # texts are no numbers
    _store(tensor, array.astype(dtype))


@mutation("node")
def weight_sizes(pick: Pick, model: ModelProto) -> None:
    """Say other sizes for a stored tensor, without changing its bytes."""
    tensor = pick.one(stored_tensors(model))
    what = pick.randrange(4)
    if what == 0 or not tensor.dims:
        tensor.dims.append(pick.integer())
    elif what == 1:
        del tensor.dims[pick.randrange(len(tensor.dims))]
    elif what == 2:
        sizes = list(tensor.dims)
        pick.shuffle(sizes)
        tensor.dims[:] = sizes
    else:
        tensor.dims[pick.randrange(len(tensor.dims))] = pick.integer()


@mutation("node")
def weight_reshaped(pick: Pick, model: ModelProto) -> None:
    """Store a part of a tensor, or the tensor with more axes or none."""
    tensor = pick.one(stored_tensors(model))
    array = _array(tensor)
    choices = [array.ravel(), array[None], array.ravel()[:0], array.ravel()[:1]]
    if array.ndim and array.size:
        choices += [array[:1], array[..., :0], array[0], numpy.concatenate([array, array])]
    _store(tensor, pick.one([choice for choice in choices if choice is not None]))


@mutation("node")
def weight_values(pick: Pick, model: ModelProto) -> None:
    """Store values at the limits: NaN, infinity, the largest integers, negative and zero ones."""
    tensor = pick.one(stored_tensors(model))
    array = _array(tensor).copy()
    if array.dtype.kind in "iu":
        limits = numpy.iinfo(array.dtype)
        values: list[Any] = [limits.min, limits.max, 0, 1, 2, 7]
        values += [-1, -2] if array.dtype.kind == "i" else []
    elif array.dtype.kind == "f":
        values = [numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 1e30, -1.5, 1e-40]
    else:
        raise NotApplicable
    flat = array.reshape(-1)
    if flat.size == 0:
        raise NotApplicable
    chosen = pick.one(values)
    with numpy.errstate(all="ignore"):
        if pick.random() < 0.4:
            flat[:] = chosen
        else:
            flat[pick.randrange(flat.size)] = chosen
    _store(tensor, array)


@mutation("node")
def raw_data(pick: Pick, model: ModelProto) -> None:
    """Make the bytes of a stored tensor longer or shorter, or take them away."""
    tensor = pick.one([tensor for tensor in stored_tensors(model) if tensor.HasField("raw_data")])
    data = tensor.raw_data
    choices = [data[:-1], data[: len(data) // 2], b"", data + b"\1", data * 2]
    tensor.raw_data = pick.one(choices)


@mutation("node")
def typed_data(pick: Pick, model: ModelProto) -> None:
    """Store the values in a field of another type, or in two fields."""
    tensor = pick.one(stored_tensors(model))
    if pick.random() < 0.5:
        tensor.ClearField("raw_data")
    what = pick.randrange(4)
    if what == 0:
        tensor.float_data.extend([1.0] * pick.randint(1, 9))
    elif what == 1:
        tensor.int32_data.extend([pick.one([-1, 2**31 - 1, 3])] * pick.randint(1, 9))
    elif what == 2:
        tensor.int64_data.extend([pick.integer()] * pick.randint(1, 9))
    else:
        tensor.string_data.extend([b"\xff text"] * pick.randint(1, 3))


@mutation("node")
def sparse_weight(pick: Pick, model: ModelProto) -> None:
    """Store a weight as a sparse tensor, whose indices do not always fit."""
    graph = pick.one([graph for graph in graphs(model) if len(graph.initializer)])
    weight = pick.one(graph.initializer)
    size = pick.randint(0, 3)
    values = helper.make_tensor(weight.name, TensorProto.FLOAT, [size], [1.0] * size)
    indices = [pick.integer() if pick.random() < 0.3 else index for index in range(size)]
    stored = helper.make_tensor("", TensorProto.INT64, [size], indices)
    dims = list(weight.dims) if pick.random() < 0.7 else [pick.integer()]
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, stored, dims))
    if pick.random() < 0.8:
        graph.initializer.remove(weight)


@mutation("node")
def external_place(pick: Pick, model: ModelProto) -> None:
    """Let a stored tensor point to a file elsewhere, or to a wrong part of one."""
    tensor = pick.one(stored_tensors(model))
    place = pick.one(
        ["../secret", "/etc/hostname", "missing.data", "", ".", "model.onnx", "sub/../model.onnx",
         "a\0b", "x" * 5000]
    )  # fmt: skip
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": place, "offset": str(pick.integer()), "length": str(pick.integer())}
    if pick.random() < 0.3:
        entries["offset"] = pick.one(["", "one", "1e3", "-0", "0x10", "９"])
    del tensor.external_data[:]
    for key, value in entries.items():
        if pick.random() < 0.8:
            tensor.external_data.add(key=key, value=value)


def _array(tensor: Any) -> Any:
    """Return a tensor's values; raises NotApplicable where they cannot be read."""
    try:
        return numpy_helper.to_array(tensor)
    except Exception:
        raise NotApplicable from None


def _store(tensor: Any, array: Any) -> None:
    tensor.CopyFrom(numpy_helper.from_array(numpy.ascontiguousarray(array), tensor.name))
