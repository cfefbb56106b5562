"""StoreNarrow: keeps values that products read in 16 bits in memory as 16 bits, for all readers.

    v = …  (float32)                                   n = R.astype(v, "bfloat16")
    n = R.astype(v, "bfloat16")                   →    y = R.matmul(n, w)
    y = R.matmul(n, w)                                 z = R.add(R.astype(n, "float32"), y)
    z = R.add(v, y)

So a kernel that makes such a value writes it once, in half the bytes, instead of in both forms.
What reads it as float32 widens it in registers: the residual of a block is then rounded as what
the block computes from it is. What the function returns stays float32.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import used_vars
from tilesmith.relax.expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.runtime.dtype import DataType

__all__ = ["store_narrow"]


class _StoreNarrow(PyExprMutator):
    def __init__(self, mod: IRModule, dtype: DataType) -> None:
        super().__init__(mod)
        self.dtype = dtype
        self.readers: dict[Var, int] = {}
        """The values that are read in both forms, with the number of those who read float32."""
        self.narrow: dict[Var, Any] = {}
        self.wide: dict[Var, list[Any]] = {}
        self.depth = 0  # of calls

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        """Rewrite a block whose values are read in both forms; they are not known behind it."""
        self.readers = self._read_in_both_forms(block)
        made = super().visit_dataflow_block_(block)
        self.narrow, self.wide = {}, {}
        return made

    def _narrowed(self, value: Any) -> Any:
        """Return what a conversion to the narrow dtype converts; None if the value is none."""
        if not isinstance(value, Call) or value.op is not operators.astype.op:
            return None
        info: Any = known_struct_info(value)
        source: Any = known_struct_info(value.args[0])
        return value.args[0] if info.dtype == self.dtype and source.dtype == "float32" else None

    def _read_in_both_forms(self, block: DataflowBlock) -> dict[Var, int]:
        """Return the values of a block that products read as narrow ones, with the number of the
        other calls that read them, if there are any.
        """
        made: set[Var] = set()
        narrow: set[Var] = set()
        wide: dict[Var, int] = {}
        for binding in block.bindings:
            source = self._narrowed(binding.value)
            if isinstance(source, Var):
                narrow.add(source)
            elif isinstance(binding.value, Call):
                for one in used_vars(binding.value):
                    wide[one] = wide.get(one, 0) + 1
            if isinstance(binding, VarBinding) and isinstance(binding.value, Call):
                made.add(binding.var)
        return {one: count for one, count in wide.items() if one in narrow and one in made}

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Convert a value where it is made: to the narrow dtype, and back for each reader. A
        conversion that stands before what else the reader reads fuses with it.
        """
        super().visit_var_binding_(binding)
        count = self.readers.get(binding.var)
        if count is not None:
            value = super().visit_expr(binding.var)
            made = self.builder_.emit(operators.astype(value, self.dtype))
            back = [self.builder_.emit(operators.astype(made, "float32")) for _ in range(count)]
            self.narrow[binding.var], self.wide[binding.var] = made, back

    def visit_call_(self, op: Call) -> Any:
        """Take a conversion that exists already."""
        source = self._narrowed(op)
        if source in self.narrow:
            return self.narrow[source]
        self.depth += 1
        try:
            return super().visit_call_(op)
        finally:
            self.depth -= 1

    def visit_dataflow_var_(self, op: DataflowVar) -> Any:
        """Read the narrow form of a value in a call."""
        back = self.wide.get(op) if self.depth else None
        if back is None:
            return super().visit_dataflow_var_(op)
        return back.pop() if len(back) > 1 else back[0]

    def visit_var_(self, op: Var) -> Any:
        """Read the narrow form of a value that is a result of the block as well, in a call."""
        back = self.wide.get(op) if self.depth else None
        if back is None:
            return super().visit_var_(op)
        return back.pop() if len(back) > 1 else back[0]


@compiler_pass("StoreNarrow")
def store_narrow(func: Function, mod: IRModule, dtype: str = "bfloat16") -> Function:
    """Lets those who read a value of float32 that is also converted to ``dtype`` read the narrow
    one.
    """
    made: Function = _StoreNarrow(mod, DataType(dtype)).visit_expr(func)
    return made
