"""The parts of the interpreter's compiler, each alone."""

import numpy as np
import pytest

from tilesmith.ir import Add, BinaryOp, Call, FloorMod, Mod, Op, Var
from tilesmith.support.errors import ExecutionError, OutOfBoundsError
from tilesmith.tir import BufferLoad, BufferStore, Evaluate, PrimFunc, decl_buffer
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.interpreter.accesses import Accesses
from tilesmith.tir.interpreter.arithmetic import BINARY_RULES
from tilesmith.tir.interpreter.call_rules import (
    CALLS,
    GROUP_CALLS,
    handles,
    handles_for_group,
    is_collective,
)
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import Frame
from tilesmith.tir.interpreter.loads import Loads
from tilesmith.tir.interpreter.placement import Placement
from tilesmith.tir.interpreter.scope import Scope
from tilesmith.tir.interpreter.statements import StatementCompiler
from tilesmith.tir.interpreter.stores import Stores
from tilesmith.tir.interpreter.values import allocate
from tilesmith.tir.interpreter.views import BufferViews


def constants(expr):
    """Compiles expressions that are constants, and nothing else."""
    return lambda env: expr.value


def test_frame_gives_each_key_one_slot():
    frame = Frame()
    x, y = Var("x", "int32"), Var("y", "int32")
    assert frame.slot(x) == frame.slot(x) != frame.slot(y)
    assert frame.size == max(frame.slots.values()) + 1


def test_scope_knows_launches():
    scope = Scope()
    assert not scope.in_threads
    scope.launched["threadIdx.x"] = True
    assert scope.in_threads
    scope.launched["threadIdx.x"] = False
    assert not scope.in_threads
    scope.threads = {Var("t", "int32")}
    assert scope.in_threads


@pytest.mark.parametrize(
    "node_type, a, b, expected",
    [(Add, 127, 1, -128), (Mod, -7, 3, -1), (FloorMod, -7, 3, 2)],
)
def test_rules_of_arithmetic_need_no_program(node_type, a, b, expected):
    node = node_type(Var("a", "int8"), Var("b", "int8"))
    closure = BINARY_RULES[node_type](node, lambda env: a, lambda env: b)
    assert closure([]) == expected


def test_each_binary_operation_has_a_rule():
    def leaves(cls):
        below = cls.__subclasses__()
        return [leaf for one in below for leaf in leaves(one)] if below else [cls]

    assert set(leaves(BinaryOp)) == set(BINARY_RULES)


def test_loads_and_stores_of_constants():
    frame = Frame()
    views = BufferViews(frame, constants)
    buffer = decl_buffer((4,), "int32", "A")
    accesses = Accesses(frame, views, constants)
    store = Stores(accesses).store(BufferStore(buffer, 7, [2]))
    load = Loads(accesses).load(BufferLoad(buffer, [2]))
    outside = Loads(accesses).load(BufferLoad(buffer, [4]))
    env = [None] * frame.size
    with pytest.raises(ExecutionError, match="before its memory exists"):
        load(env)
    env[frame.slot(buffer.data)] = allocate(buffer.dtype, 4)
    store(env)
    assert load(env) == 7
    with pytest.raises(OutOfBoundsError):
        outside(env)


def test_views_count_the_elements_of_strided_buffers():
    views = BufferViews(Frame(), constants)
    assert views.element_count(decl_buffer((2, 3), "float32"))([]) == 6
    assert views.element_count(decl_buffer((2, 3), "float32", strides=[5, 1]))([]) == 8


def test_placement_gives_each_thread_memory_of_its_own():
    class Context:
        watch = None

    frame = Frame()
    placement = Placement(frame, BufferViews(frame, constants))
    buffer = decl_buffer((4,), "float32", scope="local")
    place = placement.buffer(buffer)
    envs = [[Context(), *[None] * (frame.size - 1)] for _ in range(2)]
    place(envs)
    first, second = [env[frame.slot(buffer.data)] for env in envs]
    assert first.memory is not second.memory
    assert np.isnan(first.view(buffer.dtype, (4,), None, 0)).all()


def test_compiler_of_expressions_alone():
    compiler = ExpressionCompiler()
    x = Var("x", "int32")
    closure = compiler.visit(x * 2 + 1)
    env = [None] * compiler.frame.size
    env[compiler.frame.slot(x)] = 20
    assert closure(env) == 41


def test_compiler_of_statements_alone():
    compiler = StatementCompiler(ExpressionCompiler())
    buffer = decl_buffer((1,), "int32")
    run_statement = compiler.visit(BufferStore(buffer, 5, [0]))
    env = [None] * compiler.frame.size
    pointer = env[compiler.frame.slot(buffer.data)] = allocate(buffer.dtype, 1)
    run_statement(env)
    assert pointer.view(buffer.dtype, (1,), None, 0)[0] == 5


@pytest.fixture
def clean_tables():
    before, groups = dict(CALLS), dict(GROUP_CALLS)
    yield
    for table, kept in ((CALLS, before), (GROUP_CALLS, groups)):
        table.clear()
        table.update(kept)


def test_a_new_operator_is_one_function(clean_tables):
    @handles("lookup_param")
    def _lookup(compiler, call):
        value = compiler.visit(call.args[0])
        return lambda env: value(env) + 1

    buffer = decl_buffer((1,), "int32")
    param = Var("p", "handle")
    call = Call("int32", Op.get("tir.lookup_param"), (buffer[0],))
    array = np.array([4], "int32")
    run(PrimFunc([param], BufferStore(buffer, call, [0]), buffer_map={param: buffer}), array)
    assert array[0] == 5
    assert not is_collective(call)


@pytest.mark.parametrize("options", [Options(), Options(check_races=True)])
def test_a_new_operator_of_groups_is_one_function(clean_tables, options):
    seen = []

    @handles_for_group("ptx_mma_sp")
    def _together(compiler, call, span):
        return lambda envs: seen.append(len(envs))

    call = Call("int32", Op.get("tir.ptx_mma_sp"), ())
    run(PrimFunc([], Evaluate(call)), options=options)
    assert is_collective(call)
    assert seen == [1]
