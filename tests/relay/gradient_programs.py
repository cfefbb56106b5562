"""Programs of two numbers: choices, closures, loops, recursion, references, data."""

from tilesmith import ir, relay


def scalar(name):
    return relay.var(name, "float64")


def number(value, dtype="float64"):
    return relay.const(value, dtype)


def a_choice():
    x, y = scalar("x"), scalar("y")
    both = x * y
    return relay.Function([x, y], relay.If(x < y, both + relay.tanh(both), relay.exp(x))), None


def a_closure():
    x, y, z = scalar("x"), scalar("y"), scalar("z")
    f = relay.var("f")
    body = relay.Let(f, relay.Function([z], relay.sin(z) * y), f(f(x)) + f(y))
    return relay.Function([x, y], body), None


def a_function_of_functions():
    x, y = scalar("x"), scalar("y")
    apply, twice, z, w = relay.var("apply"), relay.var("twice"), scalar("z"), scalar("w")
    real = relay.scalar_type("float64")
    f = relay.var("f", relay.FuncType([real], real))
    body = relay.Let(
        twice,
        relay.Function([f], relay.Function([z], f(f(z)))),
        relay.Let(apply, relay.Function([w], w * x * relay.cos(w)), relay.Call(twice(apply), [y])),
    )
    return relay.Function([x, y], body), None


def a_loop():
    i, x, y = relay.var("i", "int32"), scalar("x"), scalar("y")
    loop = relay.loops.while_loop(
        lambda i, x, y: i < number(3, "int32"),
        [i, x, y],
        lambda i, x, y: [i + number(1, "int32"), relay.sin(x) * y, y],
    )
    a, b = scalar("a"), scalar("b")
    values = relay.Call(loop, [number(0, "int32"), a, b])
    return relay.Function([a, b], relay.TupleGetItem(values, 1)), None


def references():
    x, y, r = scalar("x"), scalar("y"), relay.var("r")
    write = relay.RefWrite(r, relay.RefRead(r) * y)
    body = relay.RefRead(r) * relay.RefRead(r)
    body = relay.Let(relay.var("_"), write, relay.Let(relay.var("_"), write, body))
    body = relay.Let(r, relay.RefCreate(relay.exp(x)), body)
    return relay.Function([x, y], body), None


def recursion():
    mod = ir.IRModule()
    n, x = relay.var("n", "int32"), scalar("x")
    power = relay.GlobalVar("power")
    again = power(n - number(1, "int32"), x) * x
    mod[power] = relay.Function(
        [n, x], relay.If(n > number(0, "int32"), again, number(1.0)), relay.scalar_type("float64")
    )
    a, b = scalar("a"), scalar("b")
    return relay.Function([a, b], power(number(3, "int32"), a) * power(number(2, "int32"), b)), mod


def lists():
    mod = ir.IRModule()
    prelude = relay.Prelude(mod)
    a, b, s, t = scalar("a"), scalar("b"), scalar("s"), scalar("t")
    numbers = prelude.cons(a, prelude.cons(b, prelude.cons(a, prelude.nil())))
    squares = prelude.map(relay.Function([s], s * s * b), numbers)
    p, q = scalar("p"), scalar("q")
    total = prelude.foldl(relay.Function([p, q], p * number(0.5) + q), t, squares)
    return relay.Function([a, b], relay.Let(t, relay.sin(a), total)), mod


def tuples():
    x, y = scalar("x"), scalar("y")
    inner = relay.Tuple([x * y, relay.Tuple([y, relay.sin(x)])])
    deep = relay.TupleGetItem(relay.TupleGetItem(inner, 1), 1)
    return relay.Function([x, y], relay.Tuple([deep * y, relay.TupleGetItem(inner, 0)])), None


def checkpoints():
    x, y = scalar("x"), scalar("y")
    kept = relay.tanh(x * y)
    inner = relay.annotation.checkpoint(relay.sin(kept) * kept)
    return relay.Function(
        [x, y], relay.annotation.checkpoint(inner * relay.exp(inner)) * kept
    ), None


PROGRAMS = [
    a_choice, a_closure, a_function_of_functions, a_loop, references, recursion, lists, tuples,
    checkpoints,
]  # fmt: skip


def total(found):
    return sum(total(one) for one in found) if isinstance(found, tuple) else float(found.numpy())
