"""Random programs of relay, and their values."""

import random

import numpy

from tilesmith import ir, relay
from tilesmith.relax import interpreter
from tilesmith.relay.translate import to_relax

SHAPE = (2, 3)


def call(name, *args, **attrs):
    return relay.Call(ir.Op.get(name), args, attrs or None)


class Maker:
    """Makes expressions of tensors of one shape that share parts, bind, and branch."""

    def __init__(self, seed, with_functions=True):
        self.random = random.Random(seed)
        self.with_functions = with_functions
        self.count = 0

    def function(self):
        params = [relay.var(name, shape=SHAPE) for name in "xyz"]
        return relay.Function(
            [*params, (flag := relay.var("c", "bool"))], self.expr(5, params, flag)
        )

    def name(self):
        self.count += 1
        return self.random.choice(["a", "b", f"v{self.count}"])

    def constant(self):
        if self.random.random() < 0.5:
            return relay.const(float(self.random.randint(-3, 3)) / 4)
        values = [self.random.uniform(-1, 1) for _ in range(3)]
        return relay.const(numpy.array(values, "float32"))

    def expr(self, depth, known, flag):
        if depth == 0:
            return self.random.choice([*known, self.random.choice(known)])
        kind = self.random.randrange(9)
        one = self.expr(depth - 1, known, flag)
        if kind < 3:
            name = self.random.choice(["add", "multiply", "subtract", "maximum"])
            other = self.expr(self.random.randrange(depth), [*known, one], flag)
            return call(name, one, other)
        if kind == 3:
            return call("add", one, call("multiply", self.constant(), self.constant()))
        if kind == 4:
            var = relay.var(self.name(), shape=SHAPE if self.random.random() < 0.5 else None)
            return relay.Let(var, one, self.expr(depth - 1, [*known, var, one], flag))
        if kind == 5:
            known = [*known, one]
            true, false = [self.expr(depth - 1, known, flag) for _ in range(2)]
            return relay.If(flag, true, false)
        if kind == 6:
            return relay.TupleGetItem(
                relay.Tuple([one, call("tanh", one)]), self.random.randrange(2)
            )
        if kind == 7 and self.with_functions:
            param = relay.var(self.name(), shape=SHAPE)
            inner = relay.Function([param], self.expr(depth - 1, [*known, param], flag))
            return relay.Call(inner, [one])
        above = call("strided_slice", one, begin=[0, 0], end=[1, 3])
        below = call("strided_slice", one, begin=[1, 0], end=[2, 3])
        return call("concatenate", relay.Tuple([below, above]), axis=0)


def value_of(function, arrays):
    return interpreter.run(to_relax(ir.IRModule.from_expr(function)), "main", *arrays)


def arrays(seed):
    numbers = numpy.random.default_rng(seed)
    inputs = [numbers.standard_normal(SHAPE).astype("float32") for _ in range(3)]
    return [*inputs, numpy.array(bool(seed % 2))]


class Network:
    """Makes small networks of images: convolutions, dense layers, scales, pools, pads, branches."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = numpy.random.default_rng(seed)

    def weight(self, *shape):
        return relay.const(self.numbers.uniform(0.3, 1.2, shape).astype("float32"))

    def function(self):
        x = relay.var("x", shape=(1, 4, 6, 6))
        known = [x]
        for _ in range(self.random.randint(4, 8)):
            known.append(self.layer(self.random.choice(known[-2:]), known))
        flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(known[-1]))
        dense = [relay.nn.dense(flat, self.weight(3, 4)) + self.weight(3) for _ in range(3)]
        return relay.Function([x], relay.Tuple([known[-1], *dense]))

    def layer(self, value, known):
        kind = self.random.randrange(10)
        if kind < 2:
            return relay.nn.conv2d(value, self.weight(4, 4, 3, 3), padding=1)
        if kind == 2:
            branches = [
                relay.nn.relu(relay.nn.conv2d(value, self.weight(4, 4, 1, 1))) for _ in range(3)
            ]
            return branches[0] + branches[1] * branches[2]
        if kind == 3:
            return value * self.weight(4, 1, 1)
        if kind == 4:
            return relay.nn.bias_add(value, self.weight(4))
        if kind == 5:
            padded = relay.nn.pad(value, ((0, 0), (0, 0), (1, 1), (1, 1)))
            return relay.nn.conv2d(padded, self.weight(4, 4, 3, 3))
        if kind == 6:
            low, high = relay.split(value, 2, axis=1)
            return relay.concatenate([relay.tanh(high), low], axis=1)
        if kind == 7:
            wide = relay.cast(value, "float64")
            return relay.cast(relay.exp(wide * relay.const(-0.01, "float64")) + wide, "float32")
        if kind == 8:
            moved = relay.transpose(relay.reshape(value, (1, 4, 36)), (0, 2, 1))
            return relay.reshape(relay.transpose(moved, (0, 2, 1)), (1, 4, 6, 6))
        return relay.nn.relu(value) + self.random.choice(known) * relay.const(0.5)


def flat_values(value):
    """The arrays of a value, which may be a tuple."""
    if isinstance(value, (tuple, list)):
        return [array for one in value for array in flat_values(one)]
    return [numpy.asarray(value)]


def check_same(function, passes, inputs=None, tolerance=1e-4):
    """Apply passes to a function; it has to compute the same, and to be well formed. Returns it."""
    mod = ir.IRModule.from_expr(function)
    typed = relay.transform.InferType()(mod)["main"]
    if inputs is None:
        numbers = numpy.random.default_rng(0)
        types = [param.checked_type for param in typed.params]
        inputs = [
            numbers.standard_normal(type_.concrete_shape).astype(str(type_.dtype))
            for type_ in types
        ]
    wanted = flat_values(value_of(typed, inputs))
    for one in passes if isinstance(passes, (list, tuple)) else [passes]:
        mod = one(mod)
    made = relay.transform.InferType()(mod)["main"]
    assert relay.analysis.well_formed(made)
    assert made.checked_type == typed.checked_type
    for found, value in zip(flat_values(value_of(made, inputs)), wanted, strict=True):
        numpy.testing.assert_allclose(found, value, rtol=tolerance, atol=tolerance)
    return made
