"""An error is not swallowed without a trace: who catches one and goes on records why.

A handler of an error of ours (or of any exception) raises again or calls ``record_fallback``. The
others stand in the table below, each with the reason why nothing is given up there.
"""

import ast
from pathlib import Path

import pytest

from tilesmith.support import errors
from tilesmith.support.errors import TilesmithError

PACKAGE = Path(__file__).resolve().parents[2] / "tilesmith"
BROAD = {"Exception", "BaseException"} | {
    name
    for name, one in vars(errors).items()
    if isinstance(one, type) and issubclass(one, TilesmithError)
}
NOTHING_IS_GIVEN_UP = {
    "contrib/pipeline_executor.py outputs": "it is raised where the result of the run is taken",
    "cli/bench.py _measure": "shows why the rival cannot run the model",
    "cli/doctor.py check_target": "the report says what is wrong",
    "cli/doctor.py examine_devices": "the report says what is wrong",
    "codegen/c_compiler.py missing_compiler": "gives the reason; the driver records it",
    "compat/tvm/alias.py __dir__": "a name that fails says why when it is used",
    "compat/tvm/tvmc/main.py _main": "the command prints it, and its exit code is 1",
    "compat/tvm/tvmc/model.py _graph_of": "warns; code runs without its graph",
    "contrib/popen_pool.py _result_of": "the error is the result",
    "contrib/popen_pool.py _run": "`recv` raises the error",
    "contrib/popen_pool.py join": "`recv` raises the error",
    "contrib/popen_worker.py call": "the error travels to the parent",
    "ir/printer.py _call_gives_back": "a question: the exact form is printed otherwise",
    "ir/printer.py _gives_back": "a question: the constructor is printed otherwise",
    "ir/printing/printer.py doc": "the text says what is wrong with the node",
    "ir/printing/printer.py write": "the text says what is wrong with the node",
    "lowering/check_inputs.py _array": "checked mode counts what it cannot compare",
    "lowering/checking.py _choose": "checked mode counts what it cannot compare",
    "lowering/checking.py _compare_builds": "checked mode counts what it cannot compare",
    "lowering/checking.py _text": "part of an error that is being explained",
    "lowering/checking.py check_same": "checked mode counts what it cannot compare",
    "lowering/checking.py compare": "checked mode counts what it cannot compare",
    "relax/analysis/well_formed.py well_formed": "a question",
    "relax/relations.py describe_arguments": "part of an error that is being explained",
    "rpc/channel.py welcome": "the client is none, or has gone: there is nobody to tell",
    "rpc/server.py _welcome": "prints it; the other sessions go on",
    "rpc/service.py answer": "the error is the answer",
    "rpc/session_process.py main": "the error travels to the owner",
    "rpc/tracker.py _reply": "the error is the answer",
    "rpc/tracker.py _welcome": "the client has gone: there is nobody to tell",
    "rpc/tracker_client.py _run": "prints it, and connects again",
    "rpc/tracker_client.py request": "takes another server; the last error is raised",
    "rpc/tracker_client.py request_and_run": "takes another session; the last error is raised",
    "runtime/library.py __del__": "the interpreter ends",
    "runtime/devices.py enabled": "a question",
    "runtime/ndarray.py __repr__": "a tensor of another device is shown without its values",
    "runtime/packed_func.py keep_class": "the error itself goes on, as a RuntimeError",
    "runtime/opencl/platforms.py _find": "`problem` says what to install, and so does each use",
    "schedule_rules/default.py _is_there": "a question: a rule may have removed the block",
    "script/evaluator/explanations.py _usage": "part of an error that is being explained",
    "support/workers.py _run": "whoever waits for the result gets the error",
    "support/workers.py request": "raises CodegenError after the process is stopped",
    "support/workers.py serve": "the error travels to the parent",
    "target/nvcc.py callback_libdevice_path": 'a question: "" where there is none',
    "target/nvcc.py have_cudagraph": "a question",
    "target/nvcc.py have_tensorcore": "a question",
    "tir/schedule/errors.py _program": "part of an error that is being explained",
    "tir/schedule/primitive.py carry_out": "raises what users see",
    "tir/schedule/primitives/decompose_padding.py can_decompose_padding": "a question",
    "tir/schedule/primitives/sampling.py _draw_location": "draws another place",
    "tir/transform/simplification/buffer_elements.py _inverted": "a question: no known values",
    "tir/transform/threads/grid_exchange.py _elements": "a question: what cannot be counted",
    "tir/transform/loops/vectorize_loop.py _scalable_lanes": "a question: most extents are plain",
    "tir/transform/threads/thread_enumeration.py _elements": "an unknown place gets its barrier",
}


def caught(handler):
    """The names of the classes that a handler catches; a bare one catches everything."""
    if handler.type is None:
        return {"BaseException"}
    nodes = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {node.attr if isinstance(node, ast.Attribute) else node.id for node in nodes}


def is_call_of(node, name):
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "id", getattr(node.func, "attr", "")) == name


def goes_on_silently(handler):
    inside = [node for statement in handler.body for node in ast.walk(statement)]
    return bool(caught(handler) & BROAD) and not any(
        isinstance(node, ast.Raise) or is_call_of(node, "record_fallback") for node in inside
    )


def silent_places(tree):
    """The functions with handlers (or ``suppress``) that neither raise nor record."""
    found = []

    def visit(node, function):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        if isinstance(node, ast.ExceptHandler) and goes_on_silently(node):
            found.append(function)
        if is_call_of(node, "suppress"):
            names = {getattr(one, "id", getattr(one, "attr", "")) for one in node.args}
            if names & BROAD:
                found.append(function)
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(tree, "")
    return found


def all_silent_places():
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("testing/"):  # fuzzing tries what is refused
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {f"{name} {function}" for function in silent_places(tree)}
    return found


def test_who_catches_an_error_and_goes_on_records_why():
    found = all_silent_places()
    new = sorted(found - NOTHING_IS_GIVEN_UP.keys())
    assert not new, f"raise again, or call record_fallback with the reason: {new}"
    gone = sorted(NOTHING_IS_GIVEN_UP.keys() - found)
    assert not gone, f"these rows of the table are not needed any more: {gone}"


@pytest.mark.parametrize(
    ("handler", "is_silent"),
    [
        ("except ScheduleError: pass", True),
        ("except (KeyError, errors.TilesmithError) as error: return None", True),
        ("except Exception: print('oh')", True),
        ("except: pass", True),
        ("except KeyError: pass", False),
        ("except TilesmithError as error: raise ValueError from error", False),
        ("except ScheduleError as error: record_fallback('schedule', '', error)", False),
    ],
)
def test_the_finder(handler, is_silent):
    tree = ast.parse(f"def f():\n  try: g()\n  {handler}")
    assert silent_places(tree) == (["f"] if is_silent else [])
    assert silent_places(ast.parse("def f():\n  with suppress(TilesmithError): g()")) == ["f"]
