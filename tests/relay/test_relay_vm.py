"""The virtual machine and the interpreter: data types, closures, references, loops."""

import hashlib
import json

import numpy
import pytest

import tilesmith as ts
from tests.relay.programs import Maker, arrays, value_of
from tilesmith import ir, relay
from tilesmith.relax import interpreter
from tilesmith.relay.backend.interpreter import ConstructorValue, Interpreter
from tilesmith.relay.prelude import Prelude
from tilesmith.relay.translate_objects import needs_objects, to_relax_objects
from tilesmith.runtime.container import ADT, RefValue
from tilesmith.runtime.program_host import fits
from tilesmith.runtime.vm import Executable, VirtualMachine
from tilesmith.script import from_source
from tilesmith.support.errors import (
    ArtifactError,
    ConfigError,
    ExecutionError,
    TargetError,
    TypeMismatchError,
    UnknownNameError,
)

TEXT = """
def @range(%n: int32, %rest: List[int32]) -> List[int32] {
  if (equal(%n, 0)) { %rest } else { @range(subtract(%n, 1), Cons(%n, %rest)) }
}
def @mapped(%n: int32) -> List[int32] {
  @map(fn (%x: int32) -> int32 { add(multiply(%x, %x), %n) }, @range(%n, Nil))
}
def @folded(%n: int32) -> int32 { @sum(@mapped(%n)) }
def @folded_right(%n: int32) -> int32 {
  @foldr(fn (%x: int32, %y: int32) -> int32 { subtract(%x, %y) }, 0, @range(%n, Nil))
}
def @kept(%n: int32) -> List[int32] {
  @filter(fn (%x: int32) -> bool { greater(%x, 2) }, @range(%n, Nil))
}
def @pairs(%n: int32) -> List[(int32, int32)] { @zip(@range(%n, Nil), @rev(@range(%n, Nil))) }
def @tree(%n: int32) -> (int32, Tree[int32]) {
  let %leaf = Rose(%n, Nil);
  let %t = Rose(1, Cons(%leaf, Cons(Rose(2, Cons(%leaf, Nil)), Nil)));
  (@size(%t), @tmap(fn (%x: int32) -> int32 { negative(%x) }, %t))
}
def @adder(%n: int32) -> fn (int32) -> int32 { fn (%x: int32) -> int32 { add(%x, %n) } }
def @closures(%n: int32) -> int32 {
  let %f = @adder(%n);
  let %g = @adder(%f(1));
  @compose(%f, %g)(%n)
}
def @powers(%n: int32) -> int32 {
  @iterate(fn (%x: int32) -> int32 { multiply(2, %x) }, %n)(3)
}
def @is_even(%n: int32) -> bool {
  if (equal(%n, 0)) { True } else { @is_odd(subtract(%n, 1)) }
}
def @is_odd(%n: int32) -> bool {
  if (equal(%n, 0)) { False } else { @is_even(subtract(%n, 1)) }
}
def @counter(%n: int32) -> int32 {
  let %r = ref(%n);
  let %bump = fn () -> int32 {
    let %unused = (%r := add(ref_read(%r), 10));
    ref_read(%r)
  };
  let %one = %bump();
  let %two = %bump();
  add(multiply(%one, 1000), %two)
}
def @nested(%n: int32) -> int32 {
  match ((Some(Cons(%n, Nil)), %n)) {
    (None, _) => -1,
    (Some(Nil), _) => -2,
    (Some(Cons(%a, Cons(_, _))), _) => -3,
    (Some(Cons(%a, Nil)), %b) => add(%a, %b)
  }
}
def @dynamic(%x: Tensor[(?, 2), float32], %n: int32) -> Tensor[(?, 2), float32] {
  if (equal(%n, 0)) { %x }
  else { @dynamic(concatenate((%x, exp(%x)), axis=0), subtract(%n, 1)) }
}
def @tensors(%x: Tensor[(3, 4), float32]) -> List[Tensor[(3, 4), float32]] {
  @map(fn (%y: Tensor[(3, 4), float32]) -> Tensor[(3, 4), float32] {
    nn.relu(subtract(%y, %x)) }, Cons(%x, Cons(multiply(%x, 3f), Nil)))
}
def @constructor_as_function(%n: int32) -> List[Option[int32]] { @map(Some, @range(%n, Nil)) }
"""
TEXT = TEXT.replace("(%r := add(ref_read(%r), 10))", "ref_write(%r, add(ref_read(%r), 10))")


def module():
    mod = ts.IRModule()
    Prelude(mod)
    mod.update(relay.parse('#[version = "0.0.5"]\n' + TEXT, init_module=mod))
    return mod


@pytest.fixture(scope="module")
def program():
    return module()


@pytest.fixture(scope="module")
def machine(program):
    return VirtualMachine(relay.vm.compile(program, "llvm"), ts.cpu())


LIST = Prelude().cons.tag >> 8


def plain(value):
    """A result as Python values: lists of the prelude as lists, other data as (place, fields)."""
    if isinstance(value, ADT):
        if value.tag >> 8 == LIST:
            return [plain(value[0]), *plain(value[1])] if value else []
        return (value.tag & 255, *[plain(one) for one in value])
    if isinstance(value, tuple):
        return tuple([plain(one) for one in value])
    return value.numpy().tolist()


X = numpy.arange(-6, 6, dtype="float32").reshape(3, 4)
RELU = [[[0.0] * 4] * 3, numpy.maximum(2 * X, 0).tolist()]


@pytest.mark.parametrize(
    ("name", "argument", "expected"),
    [
        ("mapped", 3, [4, 7, 12]),
        ("folded", 4, 46),
        ("folded_right", 4, -2),
        ("kept", 5, [3, 4, 5]),
        ("pairs", 3, [(1, 3), (2, 2), (3, 1)]),
        ("tree", 7, (4, (0, -1, [(0, -7, []), (0, -2, [(0, -7, [])])]))),
        ("closures", 5, 16),
        ("powers", 5, 96),
        ("is_even", 7, False),
        ("counter", 1, 11021),
        ("nested", 8, 16),
        ("constructor_as_function", 2, [(0, 1), (0, 2)]),
        ("tensors", X, RELU),
    ],
)
def test_programs_in_both_executors(program, machine, name, argument, expected):
    value = argument if isinstance(argument, numpy.ndarray) else numpy.int32(argument)
    assert plain(machine.invoke(name, value)) == expected
    reference = Interpreter(program, ts.cpu(), "llvm").evaluate(program.get_global_var(name))
    assert plain(reference(value)) == expected


def test_sizes_that_a_recursion_decides(program, machine):
    x = numpy.array([[0, 1]], "float32")
    expected = x
    for _ in range(3):
        expected = numpy.concatenate([expected, numpy.exp(expected)])
    reference = Interpreter(program, ts.cpu(), "llvm").evaluate(program.get_global_var("dynamic"))
    for run in (lambda *args: machine.invoke("dynamic", *args), reference):
        numpy.testing.assert_allclose(run(x, numpy.int32(3)).numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["folded", "is_even"])
def test_deep_recursion(program, machine, name):
    n = 10_000
    total = (n * (n + 1) * (2 * n + 1) // 6 + n * n + 2**31) % 2**32 - 2**31
    wanted = {"folded": total, "is_even": True}
    assert machine.invoke(name, numpy.int32(n)).numpy() == wanted[name]


def test_deep_recursion_of_the_interpreter(program):
    run = Interpreter(program, ts.cpu(), "llvm").evaluate(program.get_global_var("is_even"))
    assert run(numpy.int32(3_000)).numpy()


def test_recursion_without_an_end(monkeypatch):
    x = relay.var("x", "int32")
    mod = ts.IRModule()
    Prelude(mod)
    again = relay.GlobalVar("again")
    mod[again] = relay.Function([x], mod.get_global_var("id")(again(x)), relay.scalar_type("int32"))
    machine = VirtualMachine(relay.vm.compile(mod, "llvm"), ts.cpu())
    monkeypatch.setattr("tilesmith.runtime.program_frames._DEEPEST", 1000)
    with pytest.raises(ExecutionError, match="1000 calls open"):
        machine.invoke("again", numpy.int32(1))


def test_references_and_functions_as_values(program, machine):
    x = relay.var("x", "int32")
    made = relay.vm.compile(relay.Function([x], relay.Tuple([relay.RefCreate(x), x])), "llvm")
    reference, _ = VirtualMachine(made, ts.cpu()).run(numpy.int32(4))
    assert isinstance(reference, RefValue)
    assert reference.value.numpy() == 4
    add_two = machine.invoke("adder", numpy.int32(2))
    assert add_two(ts.nd.array(numpy.int32(5))).numpy() == 7


# Matches


def option(complete):
    mod = ts.IRModule()
    prelude = Prelude(mod)
    x, y = relay.var("x", prelude.optional(relay.scalar_type("int32"))), relay.var("y")
    clause = relay.Clause(relay.PatternConstructor(prelude.some, [relay.PatternVar(y)]), y)
    mod["main"] = relay.Function([x], relay.Match(x, [clause], complete))
    return mod, prelude


def test_the_time_of_a_function_on_the_inputs_that_are_set():
    x = relay.var("x", shape=(relay.Any(), 2))
    mod = ir.IRModule.from_expr(relay.Function([x], x + x))
    machine = VirtualMachine(relay.vm.compile(mod, "llvm"), ts.cpu())
    ones = numpy.ones((3, 2), "float32")
    machine.set_input("main", ones)
    assert len(machine.benchmark(ts.cpu(), repeat=2, number=1).results) == 2
    assert len(machine.benchmark(ts.cpu(), ones, repeat=1, number=1).results) == 1


def test_a_value_that_no_clause_fits():
    mod, prelude = option(complete=False)
    machine = VirtualMachine(relay.vm.compile(mod, "llvm"), ts.cpu())
    value = ADT(prelude.some.tag, [ts.nd.array(numpy.int32(3))])
    assert machine.run(value).numpy() == 3
    reference = relay.create_executor("debug", mod).evaluate()
    assert reference(value).numpy() == 3
    for run in (machine.run, reference):
        with pytest.raises(ExecutionError, match="no clause of a match fits"):
            run(ADT(prelude.none.tag, []))


def test_a_match_that_is_not_complete_is_refused():
    with pytest.raises(TypeMismatchError, match="no clause for"):
        relay.vm.compile(option(complete=True)[0], "llvm")


# The executable


def small():
    """``main(x) = map(y → y + w, [x])`` with a constant of 4 KiB."""
    mod = ts.IRModule()
    prelude = Prelude(mod)
    x, y = relay.var("x", shape=(32, 32)), relay.var("y", shape=(32, 32))
    w = relay.const(numpy.arange(1024, dtype="float32").reshape(32, 32))
    xs = prelude.cons(x, prelude.nil())
    mod["main"] = relay.Function([x], prelude.map(relay.Function([y], y + w), xs))
    return mod


ONES = numpy.ones((32, 32), "float32")


@pytest.fixture
def executable():
    return relay.vm.compile(small(), "llvm")


def result(executable):
    return VirtualMachine(executable, ts.cpu()).run(ONES)[0].numpy()


def test_what_an_executable_shows(executable):
    assert executable.globals == ["main"]
    assert executable.get_function_params("main") == ["x"]
    assert "map(f: object, xs: object)" in executable.bytecode
    assert "host fits(r1, " in executable.bytecode
    assert any("add" in name for name in executable.primitive_ops)
    assert "main" in executable.stats
    assert "float32 (32, 32)" in executable.constants
    assert "cpu" in executable.virtual_devices


def test_saving_and_loading(executable, tmp_path):
    code, lib = executable.save()
    lib.export_library(tmp_path / "lib.so")
    loaded = Executable.load_exec(code, ts.runtime.load_module(tmp_path / "lib.so"))
    expected = ONES + numpy.arange(1024, dtype="float32").reshape(32, 32)
    numpy.testing.assert_array_equal(result(loaded), expected)
    changed = bytearray(code)
    changed[-3] ^= 1
    for wrong, text in ((changed, "changed"), (b"\x80pickle", "no bytecode"), (code[:-9], "cut")):
        with pytest.raises(ArtifactError, match=text):
            Executable.load_exec(wrong, lib)
    other = relay.vm.compile(relay.Function([], relay.const(1.0) + relay.const(2.0)), "llvm")
    with pytest.raises(ArtifactError, match="does not belong"):
        Executable.load_exec(code, other.lib)


def test_constants_that_are_given_later(executable, tmp_path):
    expected = result(executable)
    executable.move_late_bound_consts(tmp_path / "consts", byte_limit=256)
    with pytest.raises(ExecutionError, match="constants are not there"):
        result(executable)
    code, lib = executable.save()
    lib.export_library(tmp_path / "lib.so")
    loaded = Executable.load_exec(code, ts.runtime.load_module(tmp_path / "lib.so"))
    with pytest.raises(UnknownNameError, match="is not among"):
        loaded.load_late_bound_consts_from_map({})
    loaded.load_late_bound_consts(tmp_path / "consts")
    numpy.testing.assert_array_equal(result(loaded), expected)


def test_steps_of_compilation():
    compiler = relay.backend.vm.VMCompiler()
    with pytest.raises(ExecutionError, match="lower"):
        compiler.codegen()
    x, w = relay.var("x", shape=(3,)), relay.var("w", shape=(3,))
    mod = ts.IRModule.from_expr(relay.Function([x, w], x * w))
    compiler.set_params({"w": numpy.array([1, 2, 3], "float32")})
    compiler.lower(mod, "llvm")
    compiler.codegen()
    made = compiler.get_exec()
    assert made.get_function_params("main") == ["x"]
    assert "native code" in made.bytecode
    value = numpy.array([4, 5, 6], "float32")
    assert VirtualMachine(made, ts.cpu()).run(value).numpy().tolist() == [4, 10, 18]
    assert [one.numpy().tolist() for one in compiler.get_params().values()] == [[1, 2, 3]]


def test_inputs_and_outputs_of_the_machine(machine):
    n = numpy.int32(4)
    machine.set_input("folded", n)
    machine.invoke_stateful("folded")
    assert [one.numpy() for one in machine.get_outputs()] == [46]
    machine.set_one_input("folded", "n", numpy.int32(1))
    assert machine.invoke("folded").numpy() == 2
    machine.set_one_input("folded", n=numpy.int32(2))
    assert machine.invoke("folded").numpy() == 9
    target = ts.nd.array(numpy.int32(0))
    machine.invoke_with_outputs("folded", {"n": n}, [target])
    assert target.numpy() == 46
    assert machine.get_input_index("n", "folded") == 0
    assert machine.get_input_index("m", "folded") == -1
    assert machine.benchmark(ts.cpu(), n, func_name="folded", repeat=2, number=1).mean > 0


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda exe: VirtualMachine(exe, ts.cpu()).run(ONES[:2]), TypeMismatchError, "input 'x'"),
        (lambda exe: VirtualMachine(exe, ts.cpu()).run(), TypeMismatchError, "takes 1 inputs"),
        (lambda exe: VirtualMachine(exe, ts.cpu()).invoke("no"), UnknownNameError, "'no'"),
        (lambda exe: VirtualMachine(exe, ts.cuda()), TargetError, "CPU"),
        (lambda exe: VirtualMachine(exe, ts.cpu(), "large"), ConfigError, "pooled"),
        (lambda exe: VirtualMachine(3, ts.cpu()), TypeMismatchError, "int"),
        (lambda exe: VirtualMachine(exe, ts.cpu()).set_one_input("main", "y", ONES),
         UnknownNameError, "it has: x"),
    ],
)  # fmt: skip
def test_mistakes_are_named(executable, act, error, text):
    with pytest.raises((error, ts.error.ShapeError) if text == "input 'x'" else error) as caught:
        act(executable)
    assert text in str(caught.value)


def signed(code, change):
    """Bytecode whose JSON was changed by someone who knows how digests are made."""
    head, _, text = bytes(code).partition(b"\n")
    content = json.loads(text)
    changed = change(content)
    text = json.dumps(content if changed is None else changed).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    return head.split(b" ")[0] + b" " + digest + b"\n" + text


def main_of(code):
    return code["programs"]["main"]


@pytest.mark.parametrize(
    "change",
    [
        lambda code: [],
        lambda code: code.update(more=1),
        lambda code: main_of(code).update(registers=10**12),
        lambda code: main_of(code)["body"].update(value={"register": 99}),
        lambda code: main_of(code)["body"].update(value={"register": -1}),
        lambda code: main_of(code)["body"].update(value={"constant": 7}),
        lambda code: main_of(code)["body"]["steps"][0].update(do="eval"),
        lambda code: main_of(code)["body"]["steps"][-1].update(to="x"),
        lambda code: main_of(code).pop("result"),
    ],
)
def test_bytecode_that_makes_no_sense_is_refused(executable, change):
    code, lib = executable.save()
    with pytest.raises(ArtifactError):
        Executable.load_exec(signed(code, change), lib)


def test_patterns_that_are_none():
    for text in ("[", "3", '["x"]', "[1, 2]", "[" * 100_000):
        with pytest.raises(ArtifactError, match="not a pattern"):
            fits((), text)


def test_a_program_is_one_file(executable, tmp_path):
    expected = result(executable)
    executable.mod.export_library(tmp_path / "model.so")
    loaded = Executable(ts.runtime.load_module(tmp_path / "model.so"))
    numpy.testing.assert_array_equal(result(loaded), expected)


# Executors by kind


@pytest.mark.parametrize("kind", ["debug", "graph", "vm", "aot"])
def test_executors_of_all_kinds(kind):
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,))
    function = relay.Function([x, y], relay.Tuple([relay.nn.softmax(x + y), relay.sum(x)]))
    run = relay.create_executor(kind, ts.IRModule.from_expr(function)).evaluate()
    a, b = numpy.arange(6, dtype="float32").reshape(2, 3), numpy.ones(3, "float32")
    soft, total = run(a, y=b)
    e = numpy.exp(a + b)
    numpy.testing.assert_allclose(soft.numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5)
    assert total.numpy() == 15
    with pytest.raises(UnknownNameError, match="no parameter 'z'"):
        run(a, z=b)
    with pytest.raises(TypeMismatchError, match="takes 2 arguments"):
        run(a)


def test_values_of_constructors_know_them():
    mod = ts.IRModule()
    prelude = Prelude(mod)
    one = relay.create_executor("debug", mod).evaluate(prelude.some(relay.const(2)))
    assert isinstance(one, ConstructorValue)
    assert one.constructor == prelude.some
    assert one.tag == prelude.some.tag
    assert one.fields[0].numpy() == 2


def test_the_interpreter_runs_operators_without_an_evaluation():
    x = relay.var("x", shape=(2, 8))
    y = relay.layout_transform(relay.reshape(x, (1, 4, 2, 2)), "NCHW", "NCHW2c")
    a = numpy.arange(16, dtype="float32").reshape(2, 8)
    found = relay.create_executor("debug").evaluate(relay.Function([x], y))(a).numpy()
    wanted = a.reshape(1, 2, 2, 2, 2).transpose(0, 1, 3, 4, 2)
    numpy.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_in_the_interpreter_and_as_objects(seed):
    function, values = Maker(seed).function(), arrays(seed)
    expected = value_of(function, values)
    found = relay.create_executor("debug").evaluate(function)(*values)
    numpy.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    objects = to_relax_objects(function)
    numpy.testing.assert_allclose(interpreter.run(objects, "main", *values), expected, rtol=1e-5)


def test_the_translation_is_a_graph_that_prints_and_runs(program):
    translated = to_relax_objects(program, ["mapped", "counter"])
    assert "R.data.fits(xs" in translated.script()
    again = from_source(translated.script())
    ts.ir.assert_structural_equal(again["map"], translated["map"], map_free_vars=True)
    assert plain_host(interpreter.run(translated, "mapped", numpy.int32(3))) == [4, 7, 12]
    assert interpreter.run(translated, "counter", numpy.int32(3)) == 13023


def plain_host(value):
    return [int(value[0]), *plain_host(value[1])] if value else []


def test_what_runs_as_native_code():
    x, n = relay.var("x", shape=(2,)), relay.var("n", "int32")
    tensors = relay.Function([x, n], relay.If(relay.less(n, relay.const(1)), x, relay.exp(x)))
    assert not needs_objects(ts.IRModule.from_expr(tensors))
    assert "main: native code" in relay.vm.compile(tensors, "llvm").bytecode
    y = relay.var("y", relay.TensorType((relay.Any(),), "float32"))
    choice = relay.Function(
        [y, n], relay.If(relay.less(n, relay.const(1)), y, relay.concatenate((y, y), 0))
    )
    assert needs_objects(ts.IRModule.from_expr(choice))
    run = relay.create_executor("vm").evaluate(choice)
    for count in (0, 1):
        wanted = [1.0, 2.0] * (1 + count)
        assert run(numpy.array([1, 2], "float32"), numpy.int32(count)).numpy().tolist() == wanted


def test_functions_of_external_code_generators():
    def generate(function):
        name = str(function.attrs["global_symbol"])

        def doubled(x, out):
            ts.nd.array(2 * x.numpy()).copyto(out)

        return ts.runtime.module_from_functions({name: doubled})

    ts.register_func("relay.ext.vm_doubling", generate, override=True)
    mod = ts.IRModule()
    prelude = Prelude(mod)
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    attrs = {"Compiler": "vm_doubling", "global_symbol": "vm_doubled", "Primitive": 1}
    inside = relay.Function([x], x + x).with_attrs(attrs)
    through = relay.Function([y], relay.Call(inside, [relay.negative(y)]))
    z = relay.var("z", shape=(2,))
    mod["main"] = relay.Function([z], prelude.map(through, prelude.cons(z, prelude.nil())))
    value = numpy.array([1, 2], "float32")
    compiled = relay.vm.compile(mod, "llvm")
    assert len(compiled.module.imported_modules) == 1
    assert plain(VirtualMachine(compiled, ts.cpu()).run(value)) == [[-2.0, -4.0]]
    assert plain(relay.create_executor("debug", mod).evaluate()(value)) == [[-2.0, -4.0]]


def test_operators_in_the_interpreter():
    x = relay.var("x", shape=(2, 6, 5, 5))
    w = relay.const(numpy.random.default_rng(0).standard_normal((4, 6, 3, 3)).astype("float32"))
    results = [
        relay.nn.conv2d(x, w, padding=(1, 1)),
        *relay.split(x, 3, axis=1),
        relay.nn.max_pool2d(x, (2, 2)),
        relay.argmax(x, axis=1),
        relay.strided_slice(x, [0, 1], [2, 4]),
        relay.take(x, relay.const(numpy.array([1, 0], "int32")), axis=1),
        relay.cast(relay.layout_transform(x, "NCHW", "NHWC"), "float64"),
    ]
    function = relay.Function([x], relay.Tuple(results))
    value = numpy.random.default_rng(1).standard_normal((2, 6, 5, 5)).astype("float32")
    wanted, found = (
        relay.create_executor(kind).evaluate(function)(value) for kind in ("graph", "debug")
    )
    for one, other in zip(wanted, found, strict=True):
        assert one.dtype == other.dtype
        numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_deep_expressions_in_the_interpreter():
    x = relay.var("x", shape=(2,))
    y = x
    for _ in range(5_000):
        y = relay.add(y, x)
    found = relay.create_executor("debug").evaluate(relay.Function([x], y))(
        numpy.array([1, 2], "float32")
    )
    assert found.numpy().tolist() == [5001, 10002]
