"""Replaces what patterns match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.analysis import remove_all_unused
from tilesmith.relax.binding import inlined_body
from tilesmith.relax.dpl.function_pattern import pattern_of_function, replace_tuples
from tilesmith.relax.dpl.matcher import match_dfb, match_expr
from tilesmith.relax.expr import (
    DataflowBlock,
    Function,
    Var,
    VarBinding,
    as_expr,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.support.errors import TypeMismatchError

__all__ = [
    "ExprPatternRewriter", "OrRewriter", "PatternMatchingRewriter", "TupleRewriter",
    "rewrite_bindings", "rewrite_call",
]  # fmt: skip

Rewriter = Callable[[Any, dict[Any, Any]], Any]


class _Replace(PyExprMutator):
    """Offers each bound value to the rewriters; the first that changes it wins."""

    def __init__(self, rules: list[tuple[Any, Rewriter]]) -> None:
        super().__init__()
        self.rules = rules
        self.values: dict[Var, Any] = {}

    def visit_var_binding_(self, binding: VarBinding) -> None:
        value = self.visit_expr(binding.value)
        for pattern, rewriter in self.rules:
            matched = match_expr(pattern, value, self.values)
            if matched is None:
                continue
            replaced = rewriter(value, matched)
            if replaced is not value and replaced is not None:
                value = replaced
                break
        if value is binding.value:
            self.builder_.emit_normalized(binding)
            self.values[binding.var] = value
            return
        value = self.builder_.normalize(as_expr(value))
        self.reemit_binding(binding, value)
        self.values[self.get_var_remap(binding.var)] = value


class PatternMatchingRewriter:
    """Rewrites functions wherever one of its patterns matches."""

    def __init__(
        self,
        rules: list[tuple[Any, Rewriter]],
        tuple_rules: Sequence[tuple[Sequence[Any], Rewriter]] = (),
    ) -> None:
        self.rules = rules
        self.tuple_rules = list(tuple_rules)

    @staticmethod
    def from_pattern(pattern: Any, func: Rewriter) -> PatternMatchingRewriter:
        """Make a rewriter; ``func(expr, matches)`` returns the replacement, or the expression
        itself.
        """
        return ExprPatternRewriter(pattern, func)

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """Make a rewriter of a module with two functions of the same parameters: ``pattern``, whose
        computation is looked for, and ``replacement``, which takes its place.
        """
        params, results, is_tuple = pattern_of_function(mod["pattern"])
        replacement = mod["replacement"]
        if not isinstance(replacement, Function) or len(replacement.params) != len(params):
            raise TypeMismatchError(
                "the function 'replacement' has the parameters of the function 'pattern'"
            )

        def replace(expr: Any, matches: dict[Any, Any]) -> Any:
            return inlined_body(replacement, [matches[one] for one in params])

        if is_tuple:
            return TupleRewriter(results, replace)
        return ExprPatternRewriter(results[0], replace)

    def __or__(self, other: PatternMatchingRewriter) -> PatternMatchingRewriter:
        return OrRewriter(self, other)

    def __call__(self, obj: Any) -> Any:
        """Rewrite a function, or all functions of a module."""
        if isinstance(obj, Function):
            return self._function(obj)
        result = obj.shallow_copy()
        for name, function in list(result.functions.items()):
            if isinstance(function, Function) and function.body is not None:
                result[name] = self._function(function)
        return result

    def _function(self, function: Function) -> Function:
        changed = _Replace(self.rules).visit_expr(function) if self.rules else function
        for patterns, rewriter in self.tuple_rules:
            changed = replace_tuples(changed, patterns, rewriter)
        return changed if changed is function else remove_all_unused(changed)


class ExprPatternRewriter(PatternMatchingRewriter):
    """A rewriter with one pattern."""

    def __init__(self, pattern: Any, func: Rewriter) -> None:
        super().__init__([(pattern, func)])


class OrRewriter(PatternMatchingRewriter):
    """The patterns of two rewriters, tried in order."""

    def __init__(self, lhs: PatternMatchingRewriter, rhs: PatternMatchingRewriter) -> None:
        super().__init__([*lhs.rules, *rhs.rules], [*lhs.tuple_rules, *rhs.tuple_rules])


class TupleRewriter(PatternMatchingRewriter):
    """A rewriter of several values at once, wherever they stand in a block: one for each pattern.

    ``func(expr, matches)`` gets the tuple of the values, and returns a tuple that takes their
    places, or the expression itself.
    """

    def __init__(self, patterns: Sequence[Any], func: Rewriter) -> None:
        super().__init__([], [(list(patterns), func)])


def rewrite_call(pattern: Any, rewriter: Rewriter, func: Function) -> Function:
    """Replace each value of a function that matches by ``rewriter(expr, matches)``."""
    return PatternMatchingRewriter([(pattern, rewriter)])(func)


class _RewriteBlocks(PyExprMutator):
    def __init__(self, context: Any, rewriter: Callable[..., Mapping[Var, Any]]) -> None:
        super().__init__()
        self.context = context
        self.rewriter = rewriter
        self.changed = False

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        matched = match_dfb(self.context, block)
        if matched is None:
            return super().visit_dataflow_block_(block)
        values = {binding.var: binding.value for binding in block.bindings}
        replacements = dict(self.rewriter(matched, values))
        if not replacements:
            return super().visit_dataflow_block_(block)
        self.changed = True
        self.builder_.begin_dataflow_block()
        for binding in block.bindings:
            if binding.var in replacements:
                value = self.visit_expr(as_expr(replacements[binding.var]))
                self.reemit_binding(binding, self.builder_.normalize(value))
            else:
                self.visit_binding(binding)
        return self.builder_.end_block()


def rewrite_bindings(
    ctx: Any,
    rewriter: Callable[[dict[Any, Any], dict[Var, Any]], Mapping[Var, Any]],
    func: Function,
) -> Function:
    """Bind variables to other values wherever connected patterns match.

    ``rewriter(matches, bindings)`` returns variable → new value; it is called until nothing matches
    or it returns nothing.
    """
    while True:
        mutator = _RewriteBlocks(ctx, rewriter)
        changed = mutator.visit_expr(func)
        if not mutator.changed:
            return func
        func = remove_all_unused(changed)
