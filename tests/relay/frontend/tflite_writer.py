"""Writes small models of TensorFlow Lite with the schema of the package tflite.

model = Writer()
x = model.input("x", (2, 3))
y = model.output("y", (2, 3))
model.op("LEAKY_RELU", [x], [y], "LeakyReluOptions", Alpha=0.25)
data = model.bytes()
"""

import flatbuffers
import numpy as np
import tflite

TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7,
    "int8": 9, "string": 5,
}  # fmt: skip


class Writer:
    """A model of one graph, written tensor by tensor and operator by operator."""

    def __init__(self):
        self.tensors, self.operators, self.codes = [], [], []
        self.buffers = [b""]
        self.inputs, self.outputs = [], []

    def tensor(self, name, shape, dtype="float32", scale=None, zero=0, axis=0, data=None):
        """Add a tensor; return its number. ``scale`` and ``zero`` may be lists along ``axis``."""
        buffer = 0
        if data is not None:
            self.buffers.append(np.ascontiguousarray(data).tobytes())
            buffer = len(self.buffers) - 1
        self.tensors.append((name, tuple(shape), TYPES[dtype], buffer, scale, zero, axis))
        return len(self.tensors) - 1

    def input(self, name, shape, dtype="float32", **quantisation):
        self.inputs.append(self.tensor(name, shape, dtype, **quantisation))
        return self.inputs[-1]

    def output(self, name, shape, dtype="float32", **quantisation):
        self.outputs.append(self.tensor(name, shape, dtype, **quantisation))
        return self.outputs[-1]

    def const(self, name, data, dtype=None, **quantisation):
        data = np.asarray(data, dtype)
        return self.tensor(name, data.shape, str(data.dtype), data=data, **quantisation)

    def op(self, name, inputs, outputs, options=None, custom=None, **fields):
        """Add an operator; ``None`` among the inputs is an operand that is left out."""
        code = getattr(tflite.BuiltinOperator, name) if custom is None else custom
        if code not in self.codes:
            self.codes.append(code)
        inputs = [-1 if one is None else one for one in inputs]
        self.operators.append((self.codes.index(code), inputs, outputs, options, fields))

    # Flatbuffers are written from the inside out

    def _vector(self, values):
        return self.builder.CreateNumpyVector(np.asarray(values, "int32"))

    def _offsets(self, offsets):
        self.builder.StartVector(4, len(offsets), 4)
        for one in reversed(offsets):
            self.builder.PrependUOffsetTRelative(one)
        return self.builder.EndVector()

    def _table(self, kind, **fields):
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            if value is not None:
                getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        return getattr(tflite, f"{kind}End")(self.builder)

    def _tensor(self, name, shape, kind, buffer, scale, zero, axis):
        held = None
        if scale is not None:
            scales = self.builder.CreateNumpyVector(np.atleast_1d(np.float32(scale)))
            zeros = np.broadcast_to(np.atleast_1d(np.int64(zero)), np.atleast_1d(scale).shape)
            zeros = self.builder.CreateNumpyVector(np.ascontiguousarray(zeros))
            held = self._table(
                "QuantizationParameters", Scale=scales, ZeroPoint=zeros, QuantizedDimension=axis
            )
        text, sizes = self.builder.CreateString(name), self._vector(shape)
        return self._table(
            "Tensor", Shape=sizes, Type=kind, Buffer=buffer, Name=text, Quantization=held
        )

    def _operator(self, code, inputs, outputs, options, fields):
        kind, table = None, None
        if options is not None:
            kind = getattr(tflite.BuiltinOptions, options)
            fields = {
                name: self._vector(value) if isinstance(value, list) else value
                for name, value in fields.items()
            }
            table = self._table(options, **fields)
        before, after = self._vector(inputs), self._vector(outputs)
        return self._table(
            "Operator", OpcodeIndex=code, Inputs=before, Outputs=after, BuiltinOptionsType=kind,
            BuiltinOptions=table,
        )  # fmt: skip

    def _code(self, code):
        if isinstance(code, str):
            name = self.builder.CreateString(code)
            custom = tflite.BuiltinOperator.CUSTOM
            return self._table(
                "OperatorCode", DeprecatedBuiltinCode=custom, CustomCode=name, BuiltinCode=custom
            )
        return self._table(
            "OperatorCode", DeprecatedBuiltinCode=min(code, 127), Version=1, BuiltinCode=code
        )

    def bytes(self):
        """Return the model as a file has it."""
        self.builder = flatbuffers.Builder(1024)
        buffers = []
        for data in self.buffers:
            held = self.builder.CreateByteVector(data) if data else None
            buffers.append(self._table("Buffer", Data=held))
        tensors = [self._tensor(*one) for one in self.tensors]
        operators = [self._operator(*one) for one in self.operators]
        codes = [self._code(one) for one in self.codes]
        parts = {
            "Tensors": self._offsets(tensors), "Inputs": self._vector(self.inputs),
            "Outputs": self._vector(self.outputs), "Operators": self._offsets(operators),
        }  # fmt: skip
        graph = self._table("SubGraph", **parts)
        parts = {
            "Version": 3, "OperatorCodes": self._offsets(codes),
            "Subgraphs": self._offsets([graph]), "Buffers": self._offsets(buffers),
        }  # fmt: skip
        model = self._table("Model", **parts)
        self.builder.Finish(model, file_identifier=b"TFL3")
        return bytes(self.builder.Output())
