"""How a function ends before its last statement: with the code of an error."""

from __future__ import annotations

from tilesmith.codegen.c.lines import Lines

__all__ = ["Exits"]


class Exits:
    """Writes the ways out of a function. ``returns`` is the C type of its value, or `"status"`;
    ``releases`` are the names of memory to give back on the way out."""

    def __init__(self, out: Lines, returns: str) -> None:
        self.out = out
        self.returns = returns
        self.releases: list[str] = []

    def needs_status(self, what: str) -> None:
        """An error must be able to leave the function."""
        if self.returns not in ("status", "int32_t"):
            raise self.out.unsupported(
                f"it {what}, but returns {self.returns}: no error can be told"
            )

    def check_status(self, call: str) -> None:
        """Leave with the same code unless a call gives 0."""
        name = self.out.fresh("status")
        self.out.write(f"const int32_t {name} = {call};")
        self.leave_if(f"{name} != 0", name)

    def leave_if(self, condition: str, status: str, *before: str) -> None:
        """Give memory back and return a status where a condition holds."""
        lines = [*before, *[f"free({name});" for name in reversed(self.releases)]]
        if not lines:
            self.out.write(f"if ({condition}) return {status};")
            return
        self.out.write(f"if ({condition}) {{")
        for line in [*lines, f"return {status};"]:
            self.out.write("  " + line)
        self.out.write("}")

    def leave(self, result: str) -> None:
        """Give memory back and return a value."""
        if self.releases and self.returns != "status":  # it may read what is given back
            kept = self.out.fresh("kept")
            self.out.write(f"{self.returns} {kept} = {result};")
            result = kept
        for name in reversed(self.releases):
            self.out.write(f"free({name});")
        self.out.write(f"return {'0' if self.returns == 'status' else result};")
