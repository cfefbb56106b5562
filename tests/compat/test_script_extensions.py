"""Programs that extend the parser: by statement, operator, dialect, and conversion."""

import ast

import pytest

import tilesmith as ts
from tilesmith import relax, tir
from tilesmith.compat.tvm.script_parser import (
    dispatch,
    doc,
    doc_core,
    error,
    parser,
    relax_parser,
    tir_parser,
)
from tilesmith.compat.tvm.script_parser.diagnostics import Source
from tilesmith.ir import IRModule
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import IRBuilder
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.script.evaluator.operators import OVERRIDES
from tilesmith.script.parsing import DIALECTS, FALLBACK, MODULES
from tilesmith.support.errors import MissingDependencyError, ScriptError, UnsupportedError


@pytest.fixture(autouse=True)
def registries():
    """Takes back what a test registers."""
    dialects = [DIALECTS.get("T"), DIALECTS.get("R"), MODULES]
    saved = [(vars(one), dict(vars(one))) for one in dialects]
    saved += [(one.statements, dict(one.statements)) for one in dialects]
    saved += [(table, dict(table)) for table in (OVERRIDES, FALLBACK)]
    conversions = doc.Registry.current().table
    saved.append((conversions, dict(conversions)))
    yield
    for table, values in saved:
        table.clear()
        table.update(values)


def test_a_statement_of_tensor_functions():
    """`while` becomes a loop with a bound of its own."""
    seen = []
    usual = dispatch.get("tir", "While")

    @dispatch.register(token="tir", type_name="While")
    def visit_while(self, node: doc.While):
        seen.append(type(self))
        if not isinstance(node.test, doc.Constant):
            return usual(self, node)
        with T.serial(self.eval_expr(node.test)) as i:
            with self.var_table.with_frame():
                self.var_table.add("turn", IRBuilder.name("turn", i))
                self.visit_body(node.body)

    @T.prim_func
    def made(A: T.Buffer((4,), "int32")):
        while 4:
            A[turn] = turn
        while A[0] < 3:
            A[0] = 3

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32")):
        for turn in range(4):
            A[turn] = turn

    loop, usual_loop = made.body.seq
    assert_structural_equal(loop, expected.body)
    assert isinstance(usual_loop, tir.While)
    assert seen == [parser.Parser, parser.Parser]
    assert dispatch.get("tir", "While") is visit_while


def test_assignments_of_graph_functions():
    names = []

    @dispatch.register("relax", "Assign")
    def visit_assign(self, node):
        names.append(node.targets[0].id)
        value = self.eval_expr(node.value)
        self.eval_assign(node.targets[0], value, relax_parser.bind_assign_value, True)

    @R.function
    def made(x: R.Tensor((4,), "float32")):
        y = R.add(x, x)
        z = R.exp(y)
        return z

    assert names == ["y", "z"]
    assert [b.var.name_hint for b in made.body.blocks[0].bindings] == ["y", "z"]


def test_annotations():
    usual = dispatch.get("relax", "tvm_annotation")

    @dispatch.register("relax", "tvm_annotation")
    def visit_tvm_annotation(self, node):
        written = ast.unparse(doc.from_doc(node))
        return R.Tensor((3,), "int8") if written == "Three" else usual(self, node)

    made = ts.script.parse(
        '@R.function\ndef f(x: Three, y: R.Tensor((4,), "float32")) -> Three:\n    return x\n'
    )
    assert made.params[0].struct_info.dtype == "int8"
    assert made.ret_struct_info.dtype == "int8"


def test_statements_that_no_dialect_has():
    with pytest.raises(ScriptError, match="has no place in a script"):
        ts.script.parse(DELETES)

    @dispatch.register("default", "Delete")
    def visit_delete(self, node):
        T.evaluate(len(node.targets))

    assert ts.script.parse(DELETES).body.value.value == 2


DELETES = "@T.prim_func\ndef f(a: T.int32, b: T.int32):\n    del a, b\n"


def test_a_dialect_of_its_own():
    """A function of another dialect stands in a module beside the others."""

    def sums(function):
        return function

    sums.dispatch_token = "sums"

    @dispatch.register("sums", "FunctionDef")
    def visit_function_def(self, node):
        with T.prim_func():
            T.func_name(node.name)
            params = [T.arg(param.arg, T.int32()) for param in node.args.args]
            for name, param in zip(node.args.args, params):
                self.define(name.arg, param)
            with self.with_dispatch_token("sums"):
                self.visit_body(node.body)

    @dispatch.register("sums", "Return")
    def visit_return(self, node):
        T.evaluate(T.ret(self.eval_expr(node.value)))

    @I.ir_module
    class Module:
        @sums
        def add(a, b):
            return a + b

        @T.prim_func
        def usual(a: T.int32):
            T.evaluate(a)

    assert isinstance(Module, IRModule)
    assert ts.build(Module["add"], "llvm")["add"](3, 4) == 7


def test_statements_of_modules():
    @dispatch.register("ir", "Assert")
    def visit_assert(self, node):
        I.module_attrs({"checked": ast.unparse(node.test)})

    module = ts.script.parse("@I.ir_module\nclass M:\n    assert size > 3\n")
    assert module.attrs["checked"] == "size > 3"


class Money:
    def __init__(self, cents):
        self.cents = cents


class Wallet(Money):
    _dispatch_type = Money


@pytest.mark.parametrize("cls", [Money, Wallet])
def test_operators(cls):
    @dispatch.register_op(Money, doc.Add, 0)
    def add(a, b):
        return a.cents + b

    @dispatch.register_op(Money, doc.LShift, 1)
    def shift(a, b):
        return a * 100 + b.cents

    dispatch.register_op(Money, doc.USub, 0)(lambda a: -a.cents)
    dispatch.register_op(Money, doc.Gt, 0)(lambda a, b: a.cents > b)
    dispatch.register_op(Money, doc.And, 0)(lambda a, b: a.cents * b)
    assert dispatch.get_op(Money, doc.Add, 0) is add and dispatch.get_op(Money, doc.Sub, 0) is None
    one = parser.Parser(Source("x = 1"))
    for text, expected in [("m + 5", 8), ("7 << m", 703), ("-m", -3), ("m > 2", True),
                           ("m and 4", 12), ("2 + 3", 5)]:  # fmt: skip
        assert one.eval_expr(ast.parse(text, mode="eval"), {"m": cls(3)}) == expected
    with pytest.raises(ScriptError):
        one.eval_expr(ast.parse("m - 1", mode="eval"), {"m": cls(3)})


def test_errors_at_a_node():
    @dispatch.register("tir", "Expr")
    def visit_expr(self, node):
        if isinstance(node.value, doc.Tuple):
            raise error.ParserError(node.value.elts[1], "not this one")
        self.report_error(node.value, "not that one")

    with pytest.raises(ScriptError, match="not this one\n.*:3:9\n"):
        ts.script.parse("@T.prim_func\ndef f(a: T.int32):\n    a, (a + 1)\n")
    with pytest.raises(ScriptError, match="not that one\n.*:3:5\n"):
        ts.script.parse("@T.prim_func\ndef f(a: T.int32):\n    a + 1\n")


@pytest.mark.parametrize("name", ["arguments", "enter_token", "post_visit_local_function", "Add"])
def test_what_the_parser_does_not_call_is_refused(name):
    with pytest.raises(UnsupportedError, match=f"no method for '{name}'"):
        dispatch.register("relax", name)
    assert dispatch.get("relax", name) is None
    assert dispatch.get("nowhere", "For", tir_parser.visit_for) is tir_parser.visit_for


# doc


def test_docs_are_pythons_trees():
    assert doc_core.For is ast.For and doc.Name is ast.Name
    assert {name for name in dir(ast) if name[0].isupper()} >= {"For"}
    tree = doc.parse("a = b + 1")
    assert isinstance(tree, doc.Module) and isinstance(tree.body[0], doc.Assign)
    assert doc.from_doc(tree) is tree


def test_conversions():
    @doc.register_to_doc("Constant")
    def number(node):
        return doc.Name("one", doc.Load())

    @doc.register_from_doc("Name")
    def name(node):
        return ast.Constant(1) if node.id == "one" else node

    tree = doc.parse("f(1, [2, x])")
    assert ast.unparse(tree) == "f(one, [one, x])"
    assert ast.unparse(doc.from_doc(tree)) == "f(1, [1, x])"
    assert ast.unparse(Source("y = 5").as_ast()) == "y = one"
    with pytest.raises(ValueError, match="already"):
        doc.register_to_doc("Constant")(number)


def test_visitors():
    class Names(doc.NodeVisitor):
        def __init__(self):
            self.found = []

        def visit_Name(self, node):
            self.found.append(node.id)

    class Rename(doc.NodeTransformer):
        def visit_Name(self, node):
            return doc.Name(node.id.upper(), node.ctx)

    tree = doc.parse("a = b + c[d]")
    names = Names()
    names.visit(tree.body)
    assert names.found == ["a", "b", "c", "d"]
    assert [ast.unparse(one) for one in Rename().visit(tree.body)] == ["A = B + C[D]"]
    assert Rename().visit(None) is None


# the parts of the dialects' parsers


def parser_of(text, **known):
    one = parser.Parser(Source(text))
    one.known = {"T": T, "R": R, **known}
    return one


def test_struct_infos_of_annotations():
    one = parser_of("x = 1")
    node = ast.parse('R.Tensor(("n", 4), "float32")', mode="eval").body
    proxy = relax_parser.eval_struct_info_proxy(one, node)
    assert proxy.get_symbolic_vars() == ["n"]
    with one.builder, R.function():
        R.func_name("f")
        x = R.arg("x", proxy)
        again = relax_parser.eval_struct_info(one, node)
        R.func_ret_value(x)
    assert_structural_equal(again, x.struct_info, map_free_vars=False)
    with pytest.raises(ScriptError, match="struct info is needed"):
        relax_parser.eval_struct_info_proxy(one, ast.parse("3", mode="eval").body)


def test_sizes_of_functions():
    text = (
        '@R.function\ndef f(x: R.Tensor(("n", 4)), y: R.Tensor(("n", "m"))):\n'
        "    k = T.int64()\n    z = f(x)\n    return z\n"
    )
    one, node = parser_of(text), ast.parse(text).body[0]
    assert list(relax_parser.collect_symbolic_var_from_params(one, node)) == ["n", "m"]
    known = relax_parser.collect_symbolic_var_from_prelude(one, node, {})
    assert list(known) == ["k"] and known["k"].dtype == "int64"
    assert relax_parser.is_recursive(node) and relax_parser.is_called(node, "f")
    assert not relax_parser.is_called(node.body[0], "f")


def test_flags_of_decorators():
    node = ast.parse("@T.prim_func(private=True)\ndef f(): pass").body[0]
    assert tir_parser.find_decorator_annotation(node, "private", default=False)
    assert tir_parser.find_decorator_annotation(node, "check_well_formed")


def test_macros():
    @T.macro
    def store(A, i):
        A[i] = A[i] + 1

    assert store.get_macro_def().name == "store"

    @dispatch.register("tir", "Expr")
    def visit_expr(self, node):
        with self.scope({"A": self.lookup("B"), "i": 3}):
            store.parse_macro(self)

    function = ts.script.parse('@T.prim_func\ndef f(B: T.Buffer((4,), "int32")):\n    expand\n')
    assert "B[3] = B[3] + 1" in function.script()


# through the alias


@pytest.fixture
def alias():
    ts.compat.tvm.install()
    yield
    ts.compat.tvm.uninstall()


def test_proxies(alias):
    from tvm.script.parser.relax import entry

    made = entry.TensorProxy(("n", 4), "float32")
    assert isinstance(made, entry.StructInfoProxy) and made.get_symbolic_vars() == ["n"]
    sizes = {}
    info = made.as_struct_info(sizes)
    assert info.shape.values[0] is sizes["n"]
    assert entry.ObjectProxy().as_struct_info() == relax.ObjectStructInfo()
    inner = entry.TupleProxy(made, entry.ShapeProxy(["m"]), entry.PrimProxy("int64"))
    assert inner.get_symbolic_vars() == ["n", "m"]
    function = entry.CallableProxy([inner], entry.ObjectProxy())
    assert len(function.as_struct_info().params[0].fields) == 3


def test_what_has_no_meaning_here_says_so(alias):
    from tvm.script.ir_builder.tir.external_kernel import SourceKernel, call_kernel
    from tvm.script.ir_builder.tir.triton import TritonKernel

    with pytest.raises(UnsupportedError, match="patterns are not read"):
        R.rewriter(IRModule())
    with pytest.raises(UnsupportedError, match="device code"):
        SourceKernel("__global__ void f() {}").compile_to_device_module([1], [])
    with pytest.raises(UnsupportedError, match="kernels of other compilers"):
        call_kernel("f", [1])
    with pytest.raises(MissingDependencyError, match="triton"):
        TritonKernel(lambda: None)
