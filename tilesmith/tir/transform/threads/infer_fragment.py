"""InferFragment: adds the shape and layout of matrix fragments where they are allocated.

    a = T.allocate([256], "float16",            a = T.allocate(...)
                   "wmma.matrix_a")             T.attr(a, "fragment_shape", "16, 16, 16")
    T.tvm_load_matrix_sync(a, 16, 16, 16,       T.attr(a, "fragment_layout", "row_major")
                           ..., "row_major")    ...

Raises UnsupportedError where a fragment is used with two shapes or layouts, or a product combines
fragments of different shapes.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, IntImm, StringImm, Var, Visitor
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, AttrStmt, Stmt

__all__ = ["find_fragments", "infer_fragment"]


class _Finder(Visitor):
    """Collects shapes and layouts by the pointer of the fragment."""

    def __init__(self) -> None:
        self.shapes: dict[Var, str] = {}
        self.layouts: dict[Var, str] = {}
        self.products: list[tuple[Any, ...]] = []

    def visit_Call(self, node: Call) -> None:
        name = called_name(node).removeprefix("tir.")
        if name in ("tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_fill_fragment"):
            fragment, sizes = node.args[0], node.args[1:4]
            if not isinstance(fragment, Var) or not all(isinstance(s, IntImm) for s in sizes):
                raise UnsupportedError(f"{name} needs a fragment and constant sizes")
            shape = ", ".join([str(size.value) for size in sizes])  # type: ignore[attr-defined]
            self.note(self.shapes, fragment, shape, "shapes")
            kind = fragment.storage_scope.rpartition(".")[2]
            if name == "tvm_load_matrix_sync" and kind in ("matrix_a", "matrix_b"):
                self.note(self.layouts, fragment, str(node.args[7].value), "layouts")  # type: ignore[attr-defined]
        elif name in ("tvm_mma_sync", "tvm_bmma_sync"):
            self.products.append(node.args[::2])
        self.visit_children(node)

    def note(self, known: dict[Var, str], fragment: Var, value: str, what: str) -> None:
        if known.setdefault(fragment, value) != value:
            raise UnsupportedError(
                f"fragment '{fragment.name}' is used with two {what}: {known[fragment]} and {value}"
            )

    def check(self) -> None:
        """Check that the operands of a product have one shape."""
        for operands in self.products:
            shapes = {self.shapes[one] for one in operands if one in self.shapes}
            if len(shapes) > 1:
                names = ", ".join([f"'{one.name}'" for one in operands if isinstance(one, Var)])
                raise UnsupportedError(
                    f"fragments of different shapes are multiplied: {names}",
                    notes=tuple(sorted(shapes)),
                )


def find_fragments(body: Stmt) -> dict[Var, tuple[str, str]]:
    """Return shape and layout of each fragment that ``body`` fills, loads or stores.

    The layout is "" where nothing is loaded into a fragment, and for accumulators.
    """
    finder = _Finder()
    finder.visit(body)
    finder.check()
    return {one: (shape, finder.layouts.get(one, "")) for one, shape in finder.shapes.items()}


class _Marker(Rewriter):
    def __init__(self, finder: _Finder) -> None:
        self.finder = finder

    def visit_Allocate(self, node: Allocate) -> Stmt:
        body = self.visit(node.body)
        pointer = node.buffer_var
        layout, shape = self.finder.layouts.get(pointer), self.finder.shapes.get(pointer)
        if layout is not None:
            body = AttrStmt(pointer, "fragment_layout", StringImm(layout), body)
        if shape is not None:
            body = AttrStmt(pointer, "fragment_shape", StringImm(shape), body)
        return node if body is node.body else node.with_fields(body=body)


@compiler_pass("tir.InferFragment")
def infer_fragment(func: PrimFunc) -> PrimFunc:
    """Adds shapes and layouts of matrix fragments as attributes.

    Returns ``func`` with the shapes and layouts of its fragments as attributes.
    """
    finder = _Finder()
    finder.visit(func.body)
    if not finder.shapes:
        return func
    finder.check()
    return func.with_body(_Marker(finder).visit(func.body))
