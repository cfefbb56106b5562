"""Writes the models of this folder and what TensorFlow itself computes with them.

    pip install tensorflow-cpu==2.21.0          # in an environment of its own
    python tests/relay/frontend/models/write_models.py [FOLDER]

NAME.tflite is beside NAME.tflite.npz, a frozen graph NAME.pb beside NAME.pb.npz: in0, in1, … and
out0, out1, …, and the names of the inputs.
"""

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
RNG = np.random.default_rng(0)
v1 = tf.compat.v1


def values(spec):
    if spec.dtype.is_floating:
        return RNG.standard_normal(spec.shape).astype(spec.dtype.as_numpy_dtype)
    return RNG.integers(0, 6, spec.shape).astype(spec.dtype.as_numpy_dtype)


def specs(shapes, dtype=tf.float32):
    return [tf.TensorSpec(shape, dtype, name=f"x{i}") for i, shape in enumerate(shapes)]


def save(path, names, inputs, outputs):
    held = {f"in{i}": x for i, x in enumerate(inputs)}
    held.update({f"out{i}": np.asarray(x) for i, x in enumerate(outputs)})
    np.savez_compressed(f"{path}.npz", names=np.array(names), **held)


def graph(name, function, given):
    """Write a function as a frozen graph."""
    concrete = convert_variables_to_constants_v2(
        tf.function(function).get_concrete_function(*given)
    )
    path = FOLDER / f"{name}.pb"
    path.write_bytes(concrete.graph.as_graph_def().SerializeToString())
    inputs = [values(spec) for spec in given]
    outputs = concrete(*[tf.constant(x) for x in inputs])
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    names = [one.name for one in concrete.inputs] + [one.name for one in concrete.outputs]
    save(path, names, inputs, [x.numpy() for x in outputs])


def lite(name, function, given, kind="float"):
    """Write a function as a model of TensorFlow Lite."""
    concrete = tf.function(function).get_concrete_function(*given)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind in ("int8", "uint8"):
        converter.representative_dataset = lambda: (
            [values(spec) for spec in given] for _ in range(20)
        )
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        integer = tf.int8 if kind == "int8" else tf.uint8
        converter.inference_input_type = converter.inference_output_type = integer
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    path = FOLDER / f"{name}.tflite"
    path.write_bytes(converter.convert())
    interpreter = tf.lite.Interpreter(
        str(path),
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    details, inputs = interpreter.get_input_details(), []
    for one in details:
        dtype = np.dtype(one["dtype"])
        if dtype.itemsize == 1:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            inputs.append(RNG.integers(low, high, one["shape"]).astype(dtype))
        else:
            inputs.append(values(tf.TensorSpec(one["shape"], tf.as_dtype(one["dtype"]))))
        interpreter.set_tensor(one["index"], inputs[-1])
    interpreter.invoke()
    outputs = [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]
    save(path, [one["name"] for one in details], inputs, outputs)


def network():
    return keras.Sequential([
        keras.Input((17, 15, 3), batch_size=1),
        L.Conv2D(8, 3, 2, "same", use_bias=False), L.BatchNormalization(), L.ReLU(max_value=6),
        L.DepthwiseConv2D(3, padding="same"), L.ReLU(), L.Conv2D(12, 1), L.ZeroPadding2D(1),
        L.MaxPooling2D(2), L.Conv2DTranspose(5, 3, 2, "same"), L.AveragePooling2D(3, 2, "same"),
        L.GlobalAveragePooling2D(), L.Dense(7, activation="softmax"),
    ])  # fmt: skip


def words():
    start = keras.Input((6,), batch_size=2, dtype="int32")
    x = L.Embedding(11, 8)(start)
    x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x))
    return keras.Model(start, L.Dense(8, activation="gelu")(x))


def arithmetic(x, y):
    r = tf.abs(x) + tf.exp(-y) * tf.sqrt(tf.abs(y) + 1) - tf.math.floordiv(x, y + 3)
    r = r + tf.math.floormod(x, 2.0) + tf.pow(tf.abs(x), 1.5) + tf.maximum(r, tf.minimum(x, y))
    r = r + tf.math.squared_difference(x, y) + tf.round(x * 2) + tf.math.rsqrt(tf.abs(x) + 1)
    r = r + tf.sin(x) + tf.cos(y) + tf.math.log(tf.abs(x) + 1) + tf.sign(x) + tf.nn.elu(x)
    r = r + tf.nn.leaky_relu(y, 0.3) + tf.where(x > y, x, y) + tf.math.ceil(x) / (tf.floor(y) + 0.5)
    both = tf.logical_and(x > 0, tf.logical_not(y <= 0))
    r = r + tf.where(tf.logical_or(both, x < y - 1), 1.0, 2.0)
    r = r + tf.cast(tf.not_equal(x, y), tf.float32) + tf.cast(x >= y, tf.float32)
    r = r + tf.nn.relu6(x * 4) + tf.square(y) + tf.nn.relu(x) - tf.tanh(y) * tf.sigmoid(x)
    whole = tf.cast(x * 10, tf.int32)
    return (
        r, tf.nn.l2_normalize(r, -1), tf.nn.log_softmax(r), tf.argmax(r, -1), tf.argmin(r, 1),
        tf.reduce_max(r, [1, 2]), tf.reduce_prod(x, -1, keepdims=True), tf.reduce_min(x),
        tf.reduce_sum(x, 0), tf.reduce_any(x > 2, 1), tf.reduce_mean(x, [0, -1]),
        tf.cumsum(x, 1, exclusive=True, reverse=True), whole // 3 + whole % 4, tf.add_n([x, y, x]),
    )  # fmt: skip


def forms(x):
    integers = tf.cast(x[0, 0, 0] * 0 + 1, tf.int32)
    return (
        x[:, ::-1, 1:5:2, -1], x[0, ..., tf.newaxis, 1:], tf.transpose(x, [3, 0, 2, 1]),
        tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], constant_values=2.0),
        tf.pad(x, [[0, 0], [1, 2], [2, 1], [0, 0]], "REFLECT"),
        tf.pad(x, [[0, 0], [1, 2], [2, 1], [0, 0]], "SYMMETRIC"), tf.gather(x, [2, 0], axis=2),
        tf.gather_nd(x, [[0, 1], [1, 2]]), tf.tile(x, [1, 2, 1, 3]), tf.reverse(x, [1]),
        tf.stack(tf.unstack(x, axis=3), axis=1), tf.split(x, [1, 3, 2], axis=1)[1],
        tf.concat(tf.split(x, 2, axis=1), 3), tf.nn.space_to_depth(x, 2),
        tf.nn.depth_to_space(x, 2), tf.space_to_batch_nd(x, [2, 2], [[1, 1], [0, 0]]),
        tf.batch_to_space(x, [2, 1], [[0, 1], [0, 0]]), tf.one_hot(integers, 5),
        tf.math.top_k(x, 3)[0], tf.math.top_k(x, 3)[1], tf.broadcast_to(x[:, :1], [2, 6, 4, 4]),
        tf.reshape(x, [tf.shape(x)[0], -1]), tf.expand_dims(tf.squeeze(x[:, :1], 1), 0),
        tf.reverse_sequence(x, [3, 5], seq_axis=1, batch_axis=0), tf.image.resize(x, [9, 5]),
        tf.image.resize(x, [9, 5], "nearest"), v1.image.resize_bilinear(x, [9, 5]),
        v1.image.resize_bilinear(x, [9, 5], align_corners=True), tf.nn.lrn(x, 2),
        v1.image.resize_nearest_neighbor(x, [9, 5], align_corners=True),
        tf.linalg.matmul(x, x, transpose_b=True), tf.fill([2, 3], x[0, 0, 0, 0]),
        tf.zeros_like(x), tf.range(4) + integers, tf.where(x > 0.5),
        tf.scatter_nd([[1], [3]], x[0, :2, 0], [5, 4]), tf.slice(x, [0, 1, 0, 2], [2, -1, 3, 1]),
    )  # fmt: skip


def windows(x):
    kernel = tf.constant(RNG.standard_normal((2, 3, 2, 3)).astype("float32"))
    deep = tf.constant(RNG.standard_normal((2, 3, 2, 1, 3)).astype("float32"))
    back = tf.constant(RNG.standard_normal((3, 3, 4, 2)).astype("float32"))
    space = tf.expand_dims(x, -1)
    return (
        tf.nn.conv2d(x, kernel, [1, 2], "VALID", dilations=[1, 1]),
        tf.nn.conv2d(x, kernel, 1, "SAME", dilations=[2, 3]),
        tf.nn.conv2d(x, kernel, 1, [[0, 0], [1, 2], [0, 3], [0, 0]]),
        tf.nn.conv3d(space, deep, [1, 1, 2, 1, 1], "SAME"),
        tf.nn.conv2d_transpose(x, back, [1, 13, 17, 4], [2, 2], "SAME"),
        tf.nn.conv2d_transpose(x, back, [1, 16, 19, 4], [2, 2], "VALID"),
        tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, (3, 2), (1, 2), "SAME"),
        tf.nn.max_pool2d(x, 2, 1, "VALID"),
    )  # fmt: skip


def mixed(x, y):
    z = tf.nn.relu(x + y) * tf.sigmoid(x) - tf.tanh(y)
    z = tf.concat([z, x], -1)
    return (
        tf.nn.softmax(tf.reshape(z, [2, -1])), tf.reduce_mean(z, [1]), tf.image.resize(z, [7, 9]),
        tf.pad(z, [[0, 0], [1, 1], [1, 1], [0, 0]]), tf.nn.leaky_relu(z, 0.2),
        tf.transpose(z, [0, 2, 1, 3]), tf.maximum(x, y), tf.nn.max_pool2d(z, 2, 2, "VALID"),
        tf.nn.avg_pool2d(z, 2, 1, "SAME"), tf.nn.relu6(z) / (tf.abs(y[:, :, :, :1]) + 1),
    )  # fmt: skip


def main():
    keras.utils.set_random_seed(3)
    net, text = network(), words()
    for variable in net.variables:
        if "variance" not in variable.path and "seed" not in variable.path:
            variable.assign_add(RNG.uniform(-0.2, 0.2, variable.shape).astype("float32"))

    def run(x):
        return net(x, training=False)

    def read(ids):
        return text(ids, training=False)

    image, pair = specs([(1, 17, 15, 3)]), specs([(2, 5, 7), (2, 5, 7)])
    four, flat = specs([(2, 6, 4, 4)]), specs([(1, 7, 9, 2)])
    for write in (graph, lite):
        write("network", run, image)
        write("words", read, specs([(2, 6)], tf.int32))
        write("arithmetic", arithmetic, pair)
        write("forms", forms, four)
        write("windows", windows, flat)
    for kind in ("int8", "uint8", "dynamic", "float16"):
        lite(f"network_{kind}", run, image, kind)
    lite("mixed_int8", mixed, specs([(2, 5, 4, 3), (2, 5, 4, 3)]), "int8")


main()
