"""`StepExecutor`: runs a model operator by operator, stops where it is told to, keeps every value.

    steps = StepExecutor("model.onnx")
    steps.set_inputs(image=x)
    steps.add_breakpoint("Softmax")          # an operator, a node of the model, or a variable
    stop = steps.run()                       # up to the breakpoint: stop.name, stop.inputs
    steps.step()                             # one operator more: .output
    steps.values["scores"]                   # what any operator gave
    print(steps.first_difference("numpy"))   # the first operator that is wrong, and by how much

Each operator is compiled by itself, as it would be without fusion (``engine="compiled"``), or is
evaluated by numpy (``engine="numpy"``). Choices, loops and calls of functions of the model are one
step each, which the interpreter carries out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tilesmith.driver import relax_build
from tilesmith.driver.model import import_model
from tilesmith.driver.node_program import function_of_call
from tilesmith.driver.object_models import is_exported_program
from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir.span import operators_at
from tilesmith.relax import (
    Call,
    ExternFunc,
    Function,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    VarBinding,
)
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.interpreter import Frame, Interpreter
from tilesmith.relax.relations import definable_symbolic_vars, symbolic_vars
from tilesmith.relax.spec import Execution
from tilesmith.support.errors import (
    ConfigError,
    ExecutionError,
    MissingDependencyError,
    TilesmithError,
    UnknownNameError,
)
from tilesmith.support.fallbacks import record_fallback

__all__ = ["Difference", "Step", "StepExecutor"]

_OTHERWISE = ("give the values of its variables as a mapping",)
Reference = str | Mapping[str, Any] | Callable[[str], Any]


@dataclass(frozen=True)
class Step:
    """One operator that has been run, or, at a breakpoint, is about to be (without ``output``)."""

    number: int
    name: str
    """The variable that holds the result."""
    operator: str
    nodes: str
    """The nodes of the imported model that it came from."""
    inputs: tuple[Any, ...]
    output: Any = None

    def __str__(self) -> str:
        shapes = ", ".join([_described(one) for one in self.inputs])
        result = "" if self.output is None else f" → {_described(self.output)}"
        nodes = f" ({self.nodes})" if self.nodes else ""
        return f"{self.number}: {self.name} = {self.operator}({shapes}){result}{nodes}"


@dataclass(frozen=True)
class Difference:
    """An operator whose result is not the reference's."""

    step: Step
    expected: Any
    largest: float
    """The largest absolute difference; infinite where shapes or non-finite numbers differ."""
    place: tuple[int, ...] = ()
    """The index of the largest difference."""

    def __str__(self) -> str:
        where = f" at {list(self.place)}" if self.place else ""
        return f"{self.step}\n  differs from the reference by {self.largest:.3g}{where}"


class StepExecutor:
    """Runs a function of a model operator by operator.

    ``model`` is what ``tilesmith.compile`` takes: the path of an ONNX file, a ModelProto, what
    ``torch.export.export`` gives, an IRModule. An executor runs once; ``restart`` begins anew
    with the inputs that are set.
    """

    def __init__(
        self,
        model: Any,
        *,
        function: str = "main",
        engine: str = "compiled",
        target: Any = "llvm",
        input_shapes: Mapping[str, Any] | None = None,
    ) -> None:
        if engine not in ("compiled", "numpy"):
            raise ConfigError(f"the engine is 'compiled' or 'numpy', got '{engine}'")
        self.module: IRModule = import_model(model, input_shapes)
        self._model = model
        self._function: Any = self.module[function]
        if not isinstance(self._function, Function):
            raise ConfigError(f"'{function}' is a tensor program, not a graph of operators")
        self._engine = engine
        self._target = target
        self._interpreter = Interpreter(self.module, compiled=engine == "compiled")
        body: Any = self._function.body
        self._bindings: list[Any] = [one for block in body.blocks for one in block.bindings]
        self._compiled: dict[int, Any] | None = None
        self._breakpoints: set[str] = set()
        self._inputs: dict[str, Any] = {}
        self._frame: Frame | None = None
        self.position = 0
        """The number of the operator that runs next."""
        self.values: dict[str, Any] = {}
        """The results so far, by variable: arrays, and tuples of them."""
        self.steps: list[Step] = []
        self._stopped = -1

    # Inputs and breakpoints

    @property
    def input_names(self) -> list[str]:
        """The names of the function's parameters."""
        return [param.name_hint for param in self._function.params]

    def set_inputs(self, *values: Any, **named: Any) -> None:
        """Set inputs by position or by name, and begin anew."""
        names = self.input_names
        if len(values) > len(names):
            raise ConfigError(f"the function has {len(names)} inputs, got {len(values)}")
        for name, value in [*zip(names, values), *named.items()]:
            if name not in names:
                raise UnknownNameError(
                    f"the function has no input '{name}'", notes=("inputs: " + ", ".join(names),)
                )
            self._inputs[name] = value
        self.restart()

    def restart(self) -> None:
        """Begin anew with the inputs that are set."""
        self._frame, self.position = None, 0
        self.values, self.steps = {}, []
        self._stopped = -1

    def add_breakpoint(self, name: str) -> None:
        """Stop before an operator: of this name ("Softmax", "nn.softmax"), from a node of the
        imported model, or whose result is in a variable of this name.
        """
        if not any(self._is_at(binding, name) for binding in self._bindings):
            known = ", ".join([one.var.name_hint for one in self._bindings[:20]])
            raise UnknownNameError(
                f"no operator, node or variable is called '{name}'",
                notes=(f"variables: {known}",),
            )
        self._breakpoints.add(name)

    def remove_breakpoint(self, name: str) -> None:
        """Do not stop there any more."""
        self._breakpoints.discard(name)

    def _is_at(self, binding: Any, name: str) -> bool:
        operator = _operator(binding.value)
        nodes = operators_at(binding.value.span)
        is_node = f"'{name}'" in nodes or any(
            one.split(" ")[0] == name for one in nodes.split(", ")
        )
        short = operator.removeprefix("relax.")
        return name in (operator, short, binding.var.name_hint) or is_node

    # Running

    def step(self) -> Step | None:
        """Run the next operator; None at the end."""
        if self.position >= len(self._bindings):
            return None
        frame = self._begun()
        number, binding = self.position, self._bindings[self.position]
        value = self._value(number, binding, frame)
        self._interpreter.bind(binding, value, frame)
        self.values[binding.var.name_hint] = value
        made = self._described(number, binding, frame, value)
        self.steps.append(made)
        self.position += 1
        return made

    def run(self) -> Step | None:
        """Run up to the next breakpoint, or to the end; return where it stopped, None at the end.

        Called again there, it goes on.
        """
        while self.position < len(self._bindings):
            binding = self._bindings[self.position]
            if self._stopped != self.position and any(
                self._is_at(binding, name) for name in self._breakpoints
            ):
                self._stopped = self.position
                return self._described(self.position, binding, self._begun())
            self.step()
        return None

    def result(self) -> Any:
        """Run to the end, breakpoints or not, and return the function's result."""
        while self.step() is not None:
            pass
        return self._interpreter.value(self._function.body.body, self._begun())

    def _begun(self) -> Frame:
        if self._frame is None:
            missing = [name for name in self.input_names if name not in self._inputs]
            if missing:
                raise ExecutionError(
                    f"the input '{missing[0]}' is not set", notes=("set_inputs sets it",)
                )
            given = [self._inputs[name] for name in self.input_names]
            self._frame = self._interpreter.enter(self._function, given)
        return self._frame

    def _value(self, number: int, binding: Any, frame: Frame) -> Any:
        call = binding.value
        function = self._functions().get(number) if self._engine == "compiled" else None
        try:
            if function is None:
                return self._interpreter.value(call, frame)
            return _host(function(*self._operands(call, frame)))
        except TilesmithError as error:
            place = f"at operator {number}: {binding.var.name_hint} = {_operator(call)}"
            error.notes = (*error.notes, place)
            raise

    def _functions(self) -> dict[int, Any]:
        """Return the compiled functions of the operators that can be compiled alone, by number."""
        if self._compiled is None:
            functions = {
                number: function_of_call(binding.value, f"step{number}")
                for number, binding in enumerate(self._bindings)
                if _can_be_alone(binding)
            }
            module = IRModule({f"step{number}": one for number, one in functions.items()})
            built: Any = relax_build.build(module, self._target) if functions else None
            self._compiled = {number: built[f"step{number}"] for number in functions}
        return self._compiled

    def _described(self, number: int, binding: Any, frame: Frame, output: Any = None) -> Step:
        value = binding.value
        inputs = self._operands(value, frame) if isinstance(value, Call) else ()
        nodes = operators_at(value.span)
        return Step(number, binding.var.name_hint, _operator(value), nodes, inputs, output)

    def _operands(self, call: Call, frame: Frame) -> tuple[Any, ...]:
        """Return the values of the tensors among a call's operands."""
        values = [self._interpreter.value(one, frame) for one in _tensors(call.args)]
        return tuple([leaf for value in values for leaf in _leaves(value)])

    # Comparing

    def first_difference(
        self, reference: Reference = "numpy", rtol: float = 1e-4, atol: float = 1e-5
    ) -> Difference | None:
        """Run from the beginning; return the first operator whose result is not the reference's.

        ``reference``: "numpy" evaluates each operator on the same inputs; "onnxruntime" runs the
        imported ONNX model, and compares what both know by name; "torch" runs the exported program
        that was imported, and compares the values of its nodes; a mapping or function from the
        names of variables gives arrays of another program (None: unknown).
        Values are compared as ``numpy.allclose`` does, NaNs equal.
        """
        self.restart()
        expected = self._reference(reference)
        for step in iter(self.step, None):
            wanted = expected(step)
            if wanted is None:
                continue
            found = _difference(step, wanted, rtol, atol)
            if found is not None:
                return found
        return None

    def _reference(self, reference: Reference) -> Callable[[Step], Any]:
        if callable(reference):
            function = reference
            return lambda step: function(step.name)
        if isinstance(reference, Mapping):
            known = reference
            return lambda step: known.get(step.name)
        if reference == "numpy":
            return self._by_numpy
        if reference == "onnxruntime":
            values = self._by_onnxruntime()
            return lambda step: values.get(step.name)
        if reference == "torch":
            by_node = self._by_torch()
            return lambda step: by_node.get(step.name)
        raise ConfigError(
            f"there is no reference '{reference}'",
            notes=("'numpy', 'onnxruntime', 'torch', or values by the names of variables",),
        )

    def _by_numpy(self, step: Step) -> Any:
        call = self._bindings[step.number].value
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return None
        spec = call.op.spec
        if spec is None or spec.evaluate is None:
            return None
        return Interpreter(self.module).value(call, self._begun())

    def _by_torch(self) -> dict[str, Any]:
        if not is_exported_program(self._model):
            raise ConfigError("torch runs programs that it exported", notes=_OTHERWISE)
        from tilesmith.inspect.torch_reference import values_by_torch

        return values_by_torch(self._model, self._inputs)

    def _by_onnxruntime(self) -> dict[str, Any]:
        try:
            import onnx
            import onnxruntime
        except ImportError:
            raise MissingDependencyError("onnxruntime", purpose="comparing with it") from None
        is_path = isinstance(self._model, (str, os.PathLike))
        if not is_path and not isinstance(self._model, onnx.ModelProto):
            raise ConfigError("onnxruntime runs ONNX models, this is another one", notes=_OTHERWISE)
        model = onnx.load(os.fspath(self._model)) if is_path else self._model
        wider = onnx.ModelProto()
        wider.CopyFrom(model)
        shown = {one.name for one in wider.graph.output}
        names = [name for node in wider.graph.node for name in node.output if name]
        wider.graph.output.extend(
            [onnx.ValueInfoProto(name=name) for name in names if name not in shown]
        )
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(
            wider.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        outputs = [one.name for one in session.get_outputs()]
        wanted = [one.name for one in session.get_inputs()]
        by_name = dict(zip(self.input_names, wanted))
        feed = {by_name[name]: _host(value) for name, value in self._inputs.items()}
        return dict(zip(outputs, session.run(outputs, feed)))


def _operator(value: Any) -> str:
    if isinstance(value, Call):
        return str(getattr(value.op, "name", None) or getattr(value.op, "name_hint", "a value"))
    return type(value).__name__


def _tensors(args: Sequence[Any]) -> Iterator[Any]:
    """Yield the operands that hold tensors, in the order of `function_of_call`."""
    for arg in args:
        if isinstance(arg, Tuple):
            yield from _tensors(arg.fields)
        elif not isinstance(arg, (GlobalVar, ExternFunc)) and isinstance(
            known_struct_info(arg), (TensorStructInfo, TupleStructInfo)
        ):
            yield arg


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value]


def _can_be_alone(binding: Any) -> bool:
    """Return whether an operator's call can be compiled as a function of its tensors."""
    call = binding.value
    if not isinstance(binding, VarBinding) or not isinstance(call, Call):
        return False
    if not isinstance(call.op, Op) or call.op.spec is None:
        return False
    if call.op.spec.execution is not Execution.KERNEL:
        return False
    operands = list(_tensors(call.args))
    others = [one for one in call.args if isinstance(one, Var) and one not in operands]
    known = {size for one in operands for size in definable_symbolic_vars(known_struct_info(one))}
    needed = {*symbolic_vars(call), *symbolic_vars(known_struct_info(call))}
    if others or not needed <= known:
        record_fallback(
            "code", _operator(call), "it needs sizes or values beside its tensors: numpy runs it"
        )
        return False
    return True


def _host(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([_host(one) for one in value])
    return value.numpy() if hasattr(value, "data_ptr") or hasattr(value, "numpy") else value


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join([_described(one) for one in value]) + ")"
    if isinstance(value, numpy.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return str(value)


def _difference(step: Step, expected: Any, rtol: float, atol: float) -> Difference | None:
    """Return how a result differs from what is expected, None if it does not."""
    if isinstance(step.output, tuple) and isinstance(expected, (tuple, list)):
        for ours, theirs in zip(step.output, expected):
            part = Step(step.number, step.name, step.operator, step.nodes, step.inputs, ours)
            found = _difference(part, theirs, rtol, atol)
            if found is not None:
                return found
        return None
    ours, theirs = numpy.asarray(_host(step.output)), numpy.asarray(_host(expected))
    if ours.shape != theirs.shape:
        return Difference(step, theirs, float("inf"))
    wide = "complex128" if numpy.iscomplexobj(theirs) else "float64"
    a, b = ours.astype(wide), theirs.astype(wide)
    with numpy.errstate(invalid="ignore"):
        wrong = ~numpy.isclose(a, b, rtol, atol, equal_nan=True)
        if not wrong.any():
            return None
        distance = numpy.where(wrong, numpy.abs(a - b), 0.0)
    distance = numpy.where(numpy.isnan(distance), numpy.inf, distance)
    place = numpy.unravel_index(int(distance.argmax()), distance.shape)
    return Difference(step, theirs, float(distance.max()), tuple([int(i) for i in place]))
