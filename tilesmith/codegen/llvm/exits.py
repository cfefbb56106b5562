"""Writes how a function ends before its last statement: with the code of an error, or by a return.

Live memory is freed first.
"""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.debug_info import annotate
from tilesmith.codegen.llvm.heap import release
from tilesmith.codegen.llvm.memo import Memo
from tilesmith.codegen.llvm.module_text import ModuleText
from tilesmith.codegen.llvm.rules import Processor
from tilesmith.codegen.llvm.scope import Scope

__all__ = ["Exits"]


class Exits:
    """Writes the exits of a function. ``returns`` is the LLVM type of its value, `"status"`, or
    `"void"`; ``releases`` are the pointers to free on the way out.
    """

    def __init__(
        self,
        out: Builder,
        text: ModuleText,
        memo: Memo,
        scope: Scope,
        returns: str,
        processor: Processor,
    ) -> None:
        self.out = out
        self.text = text
        self.memo = memo
        self.scope = scope
        self.returns = returns
        self.processor = processor
        self.releases: list[str] = []
        self._error_values = ""

    @property
    def returned_type(self) -> str:
        """The LLVM type that the function returns."""
        return "i32" if self.returns == "status" else self.returns

    def can_report(self) -> bool:
        """Return whether an error can leave the function."""
        return self.processor.no_errors is None and self.returns in ("status", "i32")

    def needs_status(self, what: str) -> None:
        """Require that the function returns a status, so that an error can leave it. Raises
        CodegenError where it cannot.
        """
        if self.processor.no_errors is not None:
            reason, advice = self.processor.no_errors
            raise self.out.unsupported(f"it {what}, {reason}", advice)
        if not self.can_report():
            raise self.out.unsupported(
                f"it {what}, but returns {self.returns}, so that it cannot report an error",
                "let it return nothing and store its result in a buffer",
            )

    def leave_unless(self, condition: str, status: Callable[[], str]) -> None:
        """Continue where `condition` (an i1) holds; else end the function with an error code."""
        out = self.out
        failed, passed = out.label("failed"), out.label("passed")
        weights = self.text.metadata.likely()
        out.write(f"br i1 {condition}, label %{passed}, label %{failed}, !prof {weights}")
        with out.rare_block(failed) as lines:
            with self.memo.branch():
                code = status()
            self.write_releases()
            out.write(f"ret i32 {code}")
            if self.scope.location:
                annotate(lines, 0, self.scope.location)
        out.begin_block(passed)

    def check_status(self, status: str) -> None:
        """End the function with the code of a call unless it returned 0."""
        good = self.out.define(f"icmp eq i32 {status}, 0")
        self.leave_unless(good, lambda: self._named(status))

    def _named(self, status: str) -> str:
        """Add to the error of a kernel which operators it computes."""
        if self.scope.operator:
            helper = self.text.helper("__tilesmith_name_operator")
            words = self.text.constant_text(f"\n  in {self.scope.operator}")
            self.out.write(f"call void {helper}(ptr {words})")
        return status

    def leave(self, value: str) -> None:
        """End the function with a value (typed; empty for nothing)."""
        self.write_releases()
        self.out.write("ret i32 0" if self.returns == "status" else f"ret {value}")
        self.out.begin_block(self.out.label("unreached"))

    def write_releases(self) -> None:
        """Free all memory that is live here."""
        for pointer in reversed(self.releases):
            release(self.out, self.text, pointer)

    def error_values(self, count: int) -> str:
        """Return space for the numbers in a message; all messages of a function share it."""
        if count > 4:
            return self.out.stack_space(8 * count, 8)
        if not self._error_values:
            self._error_values = self.out.stack_space(32, 8)
        return self._error_values

    def set_error(self, kind: str, message: str) -> None:
        """Set an error in tvm-ffi."""
        text = self.text
        function = text.declare("TVMFFIErrorSetRaisedFromCStr", "void", ["ptr", "ptr"], "cold")
        texts = f"ptr {text.constant_text(kind)}, ptr {text.constant_text(message)}"
        self.out.write(f"call void {function}({texts})")
