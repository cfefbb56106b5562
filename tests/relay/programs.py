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
