"""Writes how a function ends before its last statement: with the code of an error."""

from __future__ import annotations

from tilesmith.codegen.c_family.lines import CommonLines

__all__ = ["Exits"]


class Exits:
    """Writes the exits of a function. ``returns`` is the C type of its value, or `"status"`;
    ``releases`` are the names of memory to free on the way out.
    """

    def __init__(self, out: CommonLines, returns: str) -> None:
        self.out = out
        self.returns = returns
        self.releases: list[str] = []

    def can_report(self) -> bool:
        """Return whether an error can leave the function."""
        return self.returns in ("status", "int32_t")

    def needs_status(self, what: str) -> None:
        """Require that the function returns a status, so that an error can leave it."""
        if not self.can_report():
            raise self.out.unsupported(
                f"it {what}, but returns {self.returns}: it cannot report an error"
            )

    def check_status(self, call: str, *before: str) -> None:
        """Return the code of a call unless it is 0; run the lines ``before`` first."""
        name = self.out.fresh("status")
        self.out.write(f"const int32_t {name} = {call};")
        self.leave_if(f"{name} != 0", name, *before)

    def leave_if(self, condition: str, status: str, *before: str) -> None:
        """Free memory and return a status where a condition holds."""
        lines = [*before, *[f"free({name});" for name in reversed(self.releases)]]
        if not lines:
            self.out.write(f"if ({condition}) return {status};")
            return
        self.out.write(f"if ({condition}) {{")
        for line in [*lines, f"return {status};"]:
            self.out.write("  " + line)
        self.out.write("}")

    def leave(self, result: str) -> None:
        """Free memory and return a value."""
        if self.releases and self.returns != "status":  # the value may read memory that is freed
            kept = self.out.fresh("kept")
            self.out.write(f"{self.returns} {kept} = {result};")
            result = kept
        for name in reversed(self.releases):
            self.out.write(f"free({name});")
        self.out.write(f"return {'0' if self.returns == 'status' else result};")
