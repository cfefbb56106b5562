"""Defines the frames of the graph dialect: functions, blocks of bindings, branches.

The parser opens them for the syntax that it reads, and users open them in plain Python::

with IRBuilder() as builder:
    with R.function():
        R.func_name("main")
        x = R.arg("x", R.Tensor((4,), "float32"))
        with R.dataflow() as block:
            y = R.emit(R.add(x, x))
            R.output(y)
        R.func_ret_value(block.output_vars[0])
function = builder.get()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tilesmith.ir import PrimExpr
from tilesmith.relax.annotations import StructInfoProxy
from tilesmith.relax.block_builder import LEAVES, BlockBuilder
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowVar,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
    as_expr,
    as_struct_info,
    known_struct_info,
)
from tilesmith.relax.relations import (
    BaseCheckResult,
    describe,
    erase_to_params,
    is_base_of,
    struct_info_base_check,
    struct_info_lca,
)
from tilesmith.relax.scopes import check_visible
from tilesmith.relax.sequences import flatten_blocks
from tilesmith.relax.struct_info import ObjectStructInfo, StructInfo
from tilesmith.script.builder import Frame, IRBuilder
from tilesmith.support.errors import ScriptError
from tilesmith.tir.functor import substitute

__all__ = [
    "BlockFrame", "ElseFrame", "FunctionFrame", "IfFrame", "RelaxFrame",
    "SeqExprFrame", "ThenFrame", "innermost", "sequence_to_end",
]  # fmt: skip


AnyFrame = TypeVar("AnyFrame")

_LEAVES_BY_OUTPUT = "name it in R.output(...); after the block it is one of the frame's output_vars"


class RelaxFrame:
    """Marks the frames of the graph dialect."""


class SeqExprFrame(RelaxFrame, Frame):
    """Blocks of bindings and a result. Inside another sequence both use one block builder."""

    def __init__(self) -> None:
        super().__init__()
        outer: SeqExprFrame | None = self.builder.find_frame(SeqExprFrame)
        self.outer = outer
        self.block_builder: BlockBuilder = BlockBuilder() if outer is None else outer.block_builder
        self.constants: dict[int, tuple[Any, Constant]] = {} if outer is None else outer.constants
        self.sizes: dict[str, Any] = {} if outer is None else outer.sizes
        self.lookup: Callable[[str], Any] | None = None if outer is None else outer.lookup
        """Finds names around the program; None where a program is not parsed."""
        self.unnamed: list[Var] = [] if outer is None else outer.unnamed
        """Variables made without a name; those that have none at the end get one then."""
        self.binding_blocks: list[BindingBlock] = []
        self.output: Any = None
        self.ret_struct_info: StructInfo | None = None
        """What the result is declared as."""

    def enter(self) -> Any:
        """Begin a block of bindings."""
        self.block_builder.begin_binding_block()
        return self

    def finish(self) -> None:
        """Make the sequence; outside of all frames it is the result."""
        if self.output is None:
            raise ScriptError("the sequence has no value", notes=("call R.func_ret_value",))
        self.output = self.sequence(self.output)
        if self.outer is None:
            self.name_variables()
            self.builder.result = self.output

    # Blocks

    def end_block(self) -> None:
        """End the open block; drop it if it is empty."""
        block = self.block_builder.end_block()
        if block.bindings:
            self.binding_blocks.append(block)

    def sequence(self, value: Any) -> SeqExpr:
        """End the last block; return the blocks with a value."""
        self.end_block()
        return SeqExpr(flatten_blocks(self.binding_blocks), value)

    @property
    def last_var(self) -> Var:
        """The variable of the last binding of the open block."""
        return self.block_builder.open_blocks[-1].bindings[-1].var

    def set_output(self, value: Any) -> None:
        """Set the value of the sequence, which ends its last block."""
        if self.output is not None:
            raise ScriptError("the result is set already")
        self.output = self.block_builder.normalize_argument(self.value(value))
        self.end_block()
        self.block_builder.begin_binding_block()

    def name_variables(self) -> None:
        """Give names to the variables that have none."""
        nameless = [var for var in self.unnamed if not var.name_hint]
        for var in self.unnamed:
            self.block_builder.names.reserve(var.name_hint)
        for var in nameless:
            hint = "lv" if isinstance(var, DataflowVar) else "gv"
            object.__setattr__(var, "name_hint", self.block_builder.names.fresh(hint))

    # Values

    def struct_info(self, written: Any) -> StructInfo:
        """Convert an annotation to struct info; names of sizes are those of the function."""
        if isinstance(written, StructInfoProxy):
            return written.as_struct_info(_Sizes(self))
        return as_struct_info(written)

    def value(self, value: Any) -> Any:
        """Convert the right side of an assignment to an expression of the graph."""
        if hasattr(value, "__array__") and not isinstance(value, Expr):
            known = self.constants.get(id(value))
            if known is None:
                known = self.constants[id(value)] = (value, Constant(value))
            return known[1]
        if isinstance(value, (list, tuple)):
            return as_expr([self.value(item) for item in value])
        return as_expr(value)

    def new_var(self, name: str, info: StructInfo) -> Var:
        """Make the variable of a binding in the open block."""
        kind = DataflowVar if self.block_builder.current_block_is_dataflow() else Var
        var = kind(name, info)
        if not name:
            self.unnamed.append(var)
        return var

    def emit(self, value: Any, annotation: StructInfo | None = None, name: str = "") -> Var:
        """Bind a value to a new variable.

        What a call is declared as is what is known about the variable, even if it is less than the
        call implies. Of other values the declaration is checked only.
        """
        value = self.block_builder.normalize(self.value(value))
        info = known_struct_info(value)
        if annotation is not None:
            check = struct_info_base_check(annotation, info)
            if check == BaseCheckResult.FAIL_L0:
                whose = f"'{name}' is" if name else "a variable is"
                raise ScriptError(
                    f"{whose} declared as {describe(annotation)}, its value is {describe(info)}"
                )
            if isinstance(value, Call) or (
                isinstance(info, ObjectStructInfo) and not isinstance(value, Var)
            ):
                info = annotation
        return self.emit_binding(VarBinding(self.new_var(name, info), value, self.builder.span))

    def emit_match_cast(self, value: Any, struct_info: Any, name: str = "") -> Var:
        """Bind a value that is checked against struct info at run time."""
        source = self.block_builder.normalize_argument(self.value(value))
        info = self.struct_info(struct_info)
        return self.emit_binding(
            MatchCast(self.new_var(name, info), source, info, self.builder.span)
        )

    def emit_binding(self, binding: Binding) -> Var:
        """Append a binding as it is; return its variable."""
        block = self.builder.find_frame(RelaxFrame)
        if isinstance(block, BlockFrame) and block.outputs is not None:
            raise ScriptError("R.output is the last statement of a dataflow block")
        self.block_builder.emit_normalized(binding)
        return binding.var


class _Sizes(dict[str, Any]):
    """Names of sizes of the function; others are looked up around it."""

    def __init__(self, frame: SeqExprFrame) -> None:
        super().__init__(frame.sizes)
        self.frame = frame

    def __setitem__(self, name: str, value: Any) -> None:
        self.frame.sizes[name] = value
        super().__setitem__(name, value)

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        found = None if self.frame.lookup is None else self.frame.lookup(str(name))
        if isinstance(found, (PrimExpr, int)):
            super().__setitem__(str(name), found)
            return True
        return False

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default


class FunctionFrame(SeqExprFrame):
    """A function; inside another one, it is bound to a variable there."""

    def __init__(self, is_pure: bool = True, is_private: bool = False) -> None:
        super().__init__()
        self.sizes = dict(self.sizes)
        self.is_pure = is_pure
        self.is_private = is_private
        self.name = ""
        self.params: list[Var] = []
        self.attrs: dict[str, Any] = {}
        self.function: Function | None = None

    def add_param(self, param: Var) -> Var:
        """Append a parameter."""
        self.params.append(param)
        self.block_builder.names.reserve(param.name_hint)
        return param

    def add_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Set attributes."""
        self.attrs.update(attrs)

    def finish(self) -> None:
        """Make the function and pass it on: to the function or module around it, else it is the
        result.
        """
        if self.output is None:
            raise ScriptError(
                f"the function '{self.name}' has no result",
                notes=("call R.func_ret_value at its end",),
            )
        body = self.sequence(self.output)
        if self.outer is None:
            self.name_variables()
        if self.lookup is None:  # where a program is parsed, hidden variables have no names
            check_visible(self.name, self.binding_blocks, self.output, _LEAVES_BY_OUTPUT)
        attrs = dict(self.attrs)
        if self.outer is None and not self.is_private and self.name:
            attrs.setdefault("global_symbol", self.name)
        result = self.ret_struct_info
        if result is not None:  # the declared one, or what the body implies if that says more
            implied = erase_to_params(known_struct_info(body), self.params)
            check = struct_info_base_check(result, implied)
            if check == BaseCheckResult.FAIL_L0:
                raise ScriptError(
                    f"'{self.name}' is declared to return {describe(result)}, its value is "
                    f"{describe(implied)}"
                )
            says_more = not is_base_of(implied, result)
            result = implied if check == BaseCheckResult.PASS and says_more else result
        self.function = Function(self.params, body, result, self.is_pure, attrs, self.span)
        for frame in reversed(self.builder.frames):
            if frame.take_function(self.name, self.function):
                return
        self.builder.result = self.function

    def take_function(self, name: str, function: Any) -> bool:
        """Bind a function that was built inside this one."""
        if not isinstance(function, Function):
            return False
        var = self.new_var(name, known_struct_info(function))
        self.emit_binding(VarBinding(var, function, self.builder.span))
        return True


class BlockFrame(RelaxFrame, Frame):
    """A dataflow block; ``output_vars`` are, after its end, what ``R.output`` named."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Var] | None = None
        self.renamed: dict[Var, Var] = {}

    @property
    def output_vars(self) -> tuple[Var, ...]:
        """The variables that are visible after the block."""
        return tuple([self.renamed.get(var, var) for var in self.outputs or ()])

    def enter(self) -> BlockFrame:
        """End the block that is open, and begin this one."""
        around = [frame for frame in self.builder.frames[:-1] if isinstance(frame, RelaxFrame)]
        if around and isinstance(around[-1], BlockFrame):
            raise ScriptError("a dataflow block has no dataflow block inside")
        self.sequence: SeqExprFrame = innermost("R.dataflow", SeqExprFrame)
        self.sequence.end_block()
        self.sequence.block_builder.begin_dataflow_block()
        return self

    def set_outputs(self, variables: tuple[Any, ...]) -> None:
        """Name the variables that are visible after the block."""
        if self.outputs is not None:
            raise ScriptError("R.output is the last statement of a dataflow block")
        bound = {id(b.var) for b in self.sequence.block_builder.open_blocks[-1].bindings}
        for number, var in enumerate(variables):
            if id(var) not in bound:
                raise ScriptError(
                    f"argument {number} of R.output is not a variable of this dataflow block",
                    notes=("what is bound outside is visible without it",),
                )
        self.outputs = list(variables)

    def finish(self) -> None:
        """End the block. From where they are bound, its outputs become variables of the
        function.
        """
        sequence, builder = self.sequence, self.sequence.block_builder
        if self.outputs is None:
            raise ScriptError(
                "this dataflow block has no R.output: nothing that it computes can be used",
                notes=("end it with R.output(...) and the variables that are used after it",),
            )
        block = builder.end_block()
        hidden: set[Var] = {var for var in self.outputs if isinstance(var, DataflowVar)}
        if hidden:
            builder.begin_dataflow_block()
            for binding in block.bindings:
                builder.emit_normalized(self._with_outputs(binding, hidden))
            block = builder.end_block()
        if block.bindings:
            sequence.binding_blocks.append(block)
        builder.begin_binding_block()

    def _with_outputs(self, binding: Binding, hidden: set[Var]) -> Binding:
        """Return a binding with the outputs bound so far in place of the hidden variables."""
        old = binding.var
        binding = substitute(binding, self.renamed)
        info = substitute(known_struct_info(old), self.renamed)
        if old in hidden or info is not old.struct_info:
            kind = Var if old in hidden else type(old)
            self.renamed[old] = new = kind(old.name_hint, info, old.span)
            if not new.name_hint:
                self.sequence.unnamed.append(new)
            binding = binding.with_fields(var=new)
        return binding


class IfFrame(RelaxFrame, Frame):
    """A choice: its branches are the two frames inside; ``var`` is, after its end, the variable
    that both give a value.
    """

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.sequence = innermost("R.If", SeqExprFrame)
        if self.sequence.block_builder.current_block_is_dataflow():
            raise ScriptError("a dataflow block has no branches")
        builder = self.sequence.block_builder
        self.condition = builder.normalize_argument(self.sequence.value(condition))
        self.branches: dict[str, SeqExprFrame] = {}
        self.names: list[str] = []
        self.var: Var | None = None

    def finish(self) -> None:
        """Bind the choice."""
        if len(self.branches) != 2:
            raise ScriptError("R.If needs R.Then and R.Else: both give a value to one name")
        name, other_name = self.names
        if name != other_name:
            raise ScriptError(
                f"the branches end with '{name}' and '{other_name}': one name is needed"
            )
        then, other = self.branches["Then"], self.branches["Else"]
        info = then.ret_struct_info or struct_info_lca(
            known_struct_info(then.output), known_struct_info(other.output)
        )
        self.var = self.sequence.new_var(name, info)
        choice = If(self.condition, then.output, other.output, self.span)
        self.sequence.emit_binding(VarBinding(self.var, choice, self.span))

    @staticmethod
    def take_branch(word: str, branch: SeqExprFrame) -> None:
        """Give a branch that ends to the choice around it. Its last binding is its value, and the
        name of that binding the name of the choice.
        """
        choice = branch.builder.frames[-1] if branch.builder.frames else None
        if not isinstance(choice, IfFrame):
            raise ScriptError("Then and Else stand directly inside of an If")
        if word in choice.branches:
            raise ScriptError(f"the If has a {word} already")
        branch.end_block()
        blocks = branch.binding_blocks
        last = blocks[-1].bindings[-1] if blocks else None
        if last is None or isinstance(last.var, DataflowVar):
            raise ScriptError("a branch ends by assigning the name that it gives a value")
        value: Any = last.var
        if isinstance(last, VarBinding) and isinstance(last.value, (Tuple, *LEAVES)):
            value = last.value  # needs no variable of its own
            blocks[-1] = blocks[-1].with_fields(bindings=blocks[-1].bindings[:-1])
        branch.output = SeqExpr(flatten_blocks(blocks), value)
        choice.branches[word] = branch
        choice.names.append(last.var.name_hint)


class ThenFrame(SeqExprFrame):
    """The branch for a true condition."""

    def finish(self) -> None:
        """Pass the branch to the ``IfFrame`` around it."""
        IfFrame.take_branch("Then", self)


class ElseFrame(SeqExprFrame):
    """The branch for a false condition."""

    def finish(self) -> None:
        """Pass the branch to the ``IfFrame`` around it."""
        IfFrame.take_branch("Else", self)


def innermost(word: str, kind: type[AnyFrame]) -> AnyFrame:
    """Return the innermost open frame of a class; an error that names the word outside of one."""
    frame = IRBuilder.current().find_frame(kind) if IRBuilder.is_in_scope() else None
    if isinstance(frame, kind):
        return frame
    raise ScriptError(f"{word} stands in a function under @R.function")


def sequence_to_end(word: str) -> SeqExprFrame:
    """Return the frame whose result is set here; an error inside of a block or a branch."""
    frame = innermost(word, RelaxFrame)
    if isinstance(frame, BlockFrame):
        raise ScriptError(f"{word} stands after the dataflow block, not inside")
    if not isinstance(frame, SeqExprFrame) or isinstance(frame, (ThenFrame, ElseFrame)):
        raise ScriptError(
            f"{word} stands at the end of the function",
            notes=("let both branches assign one name and return that",),
        )
    return frame
