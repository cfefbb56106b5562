"""What the script of graphs refuses, and what its annotations, branches and words mean."""

import textwrap

import pytest

from tilesmith import relax
from tilesmith.ir import assert_structural_equal
from tilesmith.script import from_source
from tilesmith.script import relax as R
from tilesmith.support.errors import DiagnosticError, TypeMismatchError

HEAD = '@R.function\ndef main(x: R.Tensor((2, 3), "float32")):\n'


def parsed(body, head=HEAD):
    return from_source(head + textwrap.indent(textwrap.dedent(body).strip(), "    "))


@pytest.mark.parametrize(
    "body, message",
    [
        ("R.add(x, x)\nreturn x", "is not used"),
        ("R.match_cast(x, R.Tensor((2, 3)))\nreturn x", "is not used"),
        ("return x\ny = R.add(x, x)", "after `return`"),
        ("return x\nreturn x", "after `return`"),
        ("a = b = R.add(x, x)\nreturn a", "one name"),
        ("y = R.add(x, x)\nR.output(y)\nreturn y", "ends a dataflow block"),
        ("with R.dataflow():\n    return x", "after the dataflow block"),
        ("y: R.Tensor(ndim=-2) = R.add(x, x)\nreturn y", "rank"),
        ('y: R.Tensor(ndim="2") = R.add(x, x)\nreturn y', "rank"),
        ("y: R.Tensor(R.add(x, x)) = R.add(x, x)\nreturn y", "shape"),
        ("y: R.Tensor(6) = R.add(x, x)\nreturn y", "tuple of sizes"),
        ("n = T.int32()\ny = R.match_cast(x, R.Tensor((n, 3)))\nreturn y", "int64"),
        (
            't = (x, x)\ny = R.call_tir_inplace("f", t, [0], out_sinfo=R.Tensor((2, 3)))\nreturn y',
            "written tuple",
        ),
        ("with R.dataflow():\n    y = R.add(x, x)\nreturn x", "has no R.output"),
    ],
)
def test_refused(body, message):
    with pytest.raises(DiagnosticError, match=message):
        parsed(body)


@pytest.mark.parametrize(
    "after, message",
    [
        ("    R.output(y)\n    w = R.add(y, y)\nreturn y", "last statement"),
        ("    R.output(y)\n    R.output(y)\nreturn y", "last statement"),
        ("    R.output(x)\nreturn x", "not a variable of this dataflow block"),
        ("    R.output(z)\nreturn y", "undefined variable 'y'"),
        ("    R.output(*[y])\nreturn z", "undefined variable 'z'"),
    ],
)
def test_outputs_of_dataflow_blocks(after, message):
    with pytest.raises(DiagnosticError, match=message):
        parsed("with R.dataflow():\n    y = R.add(x, x)\n    z = R.exp(y)\n" + after)


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("y: R.Tensor(ndim=2) = R.add(x, x)", R.Tensor(ndim=2, dtype=None)),
        ("y: R.Tensor(ndim=2) = x", R.Tensor((2, 3), "float32")),
        ("y: R.Object = (x, x)[0]", R.Tensor((2, 3), "float32")),
        ('y: R.Tensor((4,)) = R.call_packed("f", x)', R.Tensor((4,))),
    ],
)
def test_annotations(statement, expected):
    """A call is what it is declared as; of other values the declaration is checked only."""
    function = parsed(statement + "\nreturn y", HEAD.replace("function", "function(pure=False)"))
    assert_structural_equal(function.body.body.struct_info, expected)


@pytest.mark.parametrize(
    "declared, expected",
    [
        ('R.Tensor(ndim=2, dtype="float32")', R.Tensor((2, 3), "float32")),
        ("R.Object", R.Tensor((2, 3), "float32")),
        ('R.Tensor((2, 3), "float32")', R.Tensor((2, 3), "float32")),
    ],
)
def test_the_declared_result_gives_way_to_a_finer_one(declared, expected):
    function = parsed("y = R.add(x, x)\nreturn y", HEAD.replace("):\n", f") -> {declared}:\n"))
    assert_structural_equal(function.ret_struct_info, expected)


BRANCHES = """
@R.function(pure=False)
def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
    if c:
        {}
    else:
        {}
    return {}
"""


def test_branches_end_in_match_casts_or_calls_without_a_value():
    cast = "y = R.match_cast(x, R.Tensor((4,), 'float32'))"
    function = from_source(BRANCHES.format(cast, cast, "y"))
    assert_structural_equal(function.ret_struct_info, R.Tensor((4,), "float32"))
    shout = 'R.print(x, format="{}")'
    function = from_source(BRANCHES.format(shout, shout, "x"))
    choice = function.body.blocks[0].bindings[0]
    assert choice.value.true_branch.blocks[0].bindings[0].value.op.name == "relax.print"
    assert_structural_equal(choice.var.struct_info, R.Tuple())
    assert_structural_equal(from_source(function.script()), function)
    for branches in [(shout, cast), ("R.exp(x)", "R.exp(x)")]:
        with pytest.raises(DiagnosticError):
            from_source(BRANCHES.format(*branches, "x"))


def test_functions_without_a_result():
    module = from_source("""
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            M.show(x)
            return x

        @R.function(pure=False)
        def show(x: R.Tensor((2,), "float32")):
            R.print(x, format="{}")
    """)
    assert_structural_equal(module["show"].ret_struct_info, R.Tuple())
    call = module["main"].body.blocks[0].bindings[0]
    assert_structural_equal(call.var.struct_info, R.Tuple())
    assert_structural_equal(from_source(module.script()), module)


DEVICES = """
@I.ir_module
class M:
    I.module_global_infos({"vdevice": [
        I.vdevice("llvm"), I.vdevice("cuda", 0), I.vdevice("metal"), I.vdevice("cuda", 0, "shared")
    ]})

    @R.function
    def main(x: R.Tensor((2,), "float32", "DEVICE")):
        return x
"""


@pytest.mark.parametrize(
    "device, place",
    [("cuda:1", 3), ("vdevice:3", 3), ("cuda", 1), ("metal:0", 2), ("cuda:1:shared", 3)],
)
def test_devices_are_those_of_the_module(device, place):
    module = from_source(DEVICES.replace("DEVICE", device))
    found = module["main"].params[0].struct_info.vdevice
    assert found is module.global_infos["vdevice"][place]
    assert_structural_equal(from_source(module.script()), module)


@pytest.mark.parametrize("device", ["cuda:2", "vulkan:0", "cuda:last"])
def test_devices_that_the_module_does_not_have(device):
    with pytest.raises(DiagnosticError, match="device"):
        from_source(DEVICES.replace("DEVICE", device))


def test_external_functions_of_a_module():
    module = from_source("""
    @I.ir_module
    class M:
        plain = R.ExternFunc("env.plain")
        typed = R.ExternFunc("env.typed", R.Callable((R.Object,), R.Tensor((2,), "int8"), True))

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = M.typed(x)
            return y
    """)
    assert isinstance(module["plain"], relax.ExternFunc)
    assert_structural_equal(module["main"].ret_struct_info, R.Tensor((2,), "int8"))
    assert 'plain = R.ExternFunc("env.plain")' in module.script()
    assert_structural_equal(from_source(module.script()), module)


def test_the_arguments_of_an_inplace_call_are_written_out():
    pair = relax.Var("t", R.Tuple(R.Tensor((2,)), R.Tensor((2,))))
    with pytest.raises(TypeMismatchError, match="written tuple"):
        relax.op.call_tir_inplace("f", pair, [0], R.Tensor((2,)))


def test_called_functions_are_those_of_the_module():
    with pytest.raises(DiagnosticError, match="no function 'nothing'") as caught:
        from_source("""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_tir(I.GlobalVar("nothing"), (x,), out_sinfo=R.Tensor((2,), "float32"))
        return y
""")
    assert "it has: main" in str(caught.value) and "R.call_tir(" in str(caught.value)
