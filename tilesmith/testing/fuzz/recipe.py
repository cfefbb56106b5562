"""Builds programs from recipes: plain data that can be drawn, saved as JSON, shrunk.

A recipe names sizes, inputs and stages. A *size* is a number, the name of a dimension, or
``["+", size, number]``, ``["*", size, size]``, ``["ceil", size, number]``. An *expression* is a
nested list ``[operator, …]``; the builder below says what each operator means. Each stage computes
one tensor (``argmax`` two) over spatial and reduction axes; it becomes a block under its loops.
``spare``: shapes and dtypes of memory that nothing uses.
"""

from __future__ import annotations

from typing import Any

from tilesmith import tir
from tilesmith.ir import IRModule, PrimExpr, Var, const
from tilesmith.support.errors import InternalError
from tilesmith.testing.fuzz.forms import FormBuilder
from tilesmith.testing.fuzz.layouts import declaration
from tilesmith.testing.fuzz.stages import all_loads
from tilesmith.tir import Buffer, PrimFunc, decl_buffer
from tilesmith.tir.stmt import Block, BlockRealize, stmt_seq

__all__ = [
    "Recipe", "Sizes", "arguments_of", "build", "check_recipe", "number_of",
    "outputs_of", "parameters_of", "unbound_sizes",
]  # fmt: skip

Recipe = dict[str, Any]
Argument = dict[str, Any]
Size = Any


def number_of(size: Size, dims: dict[str, int]) -> int:
    """Return the number that a size stands for."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return dims[size]
    kind, left, right = size
    one, other = number_of(left, dims), number_of(right, dims)
    if kind == "+":
        return one + other
    if kind == "*":
        return one * other
    return -(-one // other)


class Sizes:
    """Sizes as expressions: dimensions that are symbolic are variables."""

    def __init__(self, recipe: Recipe) -> None:
        self.dtype = recipe["index"]
        self.dims = recipe["dims"]
        self.variables = {name: Var(name, self.dtype) for name in recipe["symbolic"]}
        scalars = enumerate(recipe.get("scalars", ()))
        self.scalars = [Var(f"s{number}", one["dtype"]) for number, one in scalars]

    def expr(self, size: Size) -> PrimExpr:
        """Return the size as an expression of the index dtype; a constant where it is known."""
        if not self._is_symbolic(size):
            return const(number_of(size, self.dims), self.dtype)
        if isinstance(size, str):
            return self.variables[size]
        kind, left, right = size
        one, other = self.expr(left), self.expr(right)
        if kind == "+":
            return one + other
        if kind == "*":
            return one * other
        return tir.floordiv(one + (other - 1), other)

    def _is_symbolic(self, size: Size) -> bool:
        if isinstance(size, list):
            return any(self._is_symbolic(part) for part in size[1:])
        return size in self.variables


def outputs_of(recipe: Recipe) -> list[str]:
    """Return the tensors that the program returns: marked ones, and those that are never read."""
    used: set[str] = set()
    for stage in recipe["stages"]:
        used |= all_loads(stage)
    names = []
    for stage in recipe["stages"]:
        for tensor in stage["tensors"]:
            shared = stage.get("update") and tensor["name"] in names
            if (stage.get("out") or tensor["name"] not in used) and not shared:
                names.append(tensor["name"])
    return names


def build(recipe: Recipe) -> PrimFunc | IRModule:
    """Return the function of a recipe; a module, if other functions do parts of its work. Its
    parameters are scalars for symbolic sizes that are not a size of any buffer, further scalars
    (``scalars``), inputs, outputs.
    """
    sizes = Sizes(recipe)
    buffers: dict[str, Buffer] = {}
    names = parameters_of(recipe)
    layouts = recipe.get("layouts", {})
    for tensor in _tensors(recipe):
        name = tensor["name"]
        if name not in buffers:
            shape = [sizes.expr(size) for size in tensor["shape"]]
            layout = layouts.get(name) if name in names else None
            more = {} if layout is None else declaration(name, layout, shape, recipe["index"])
            buffers[name] = decl_buffer(shape, tensor["dtype"], name, **more)
    builders = [FormBuilder(stage, buffers, sizes, recipe["index"]) for stage in recipe["stages"]]
    nests = [builder.nest() for builder in builders]
    others = {name: one for builder in builders for name, one in builder.functions.items()}
    unread = {tensor["name"] for tensor in recipe["inputs"]}
    inner = [buffers[name] for name in buffers if name not in names and name not in unread]
    inner += [
        decl_buffer([sizes.expr(size) for size in one["shape"]], one["dtype"], f"spare{number}")
        for number, one in enumerate(recipe.get("spare", ()))
    ]
    root = Block((), (), (), "root", stmt_seq(*nests), None, inner)
    scalars: list[Any] = [sizes.variables[name] for name in unbound_sizes(recipe)]
    params = scalars + sizes.scalars + [buffers[name] for name in names]
    main = PrimFunc(
        params,
        BlockRealize((), True, root),
        attrs={"global_symbol": "main", "tir.noalias": True},
    )
    return IRModule({"main": main, **others}) if others else main


def _tensors(recipe: Recipe) -> list[dict[str, Any]]:
    made = list(recipe["inputs"])
    for stage in recipe["stages"]:
        made += stage["tensors"]
    return made


def parameters_of(recipe: Recipe) -> list[str]:
    """Return the names of the inputs that are read, then of the outputs."""
    read: set[str] = set()
    for stage in recipe["stages"]:
        read |= all_loads(stage)
    outputs = outputs_of(recipe)
    inputs = [tensor["name"] for tensor in recipe["inputs"] if tensor["name"] in read]
    names = inputs + [name for name in outputs if name not in inputs]
    # A symbol is bound by the first buffer that has it as a size; sums of symbols come after it.
    shapes = {tensor["name"]: tensor["shape"] for tensor in _tensors(recipe)}
    return sorted(names, key=lambda name: any(isinstance(size, list) for size in shapes[name]))


def unbound_sizes(recipe: Recipe) -> list[str]:
    """Return the symbolic sizes that are parameters, because no buffer has them as a size."""
    names = set(parameters_of(recipe))
    bound = {
        size
        for tensor in _tensors(recipe)
        if tensor["name"] in names and not any(isinstance(size, list) for size in tensor["shape"])
        for size in tensor["shape"]
        if isinstance(size, str)
    }
    return [name for name in recipe["symbolic"] if name not in bound]


def arguments_of(recipe: Recipe, dims: dict[str, int] | None = None) -> list[Argument]:
    """Return the argument for each parameter, with ``dims`` for the numbers of symbolic sizes."""
    dims = {**recipe["dims"], **(dims or {})}
    tensors: dict[str, dict[str, Any]] = {}
    for tensor in _tensors(recipe):
        known = tensors.setdefault(tensor["name"], tensor)
        if known["ulp"] != tensor["ulp"]:
            tensors[tensor["name"]] = tensor
    inputs = {tensor["name"] for tensor in recipe["inputs"]}
    made: list[Argument] = [{"value": dims[name]} for name in unbound_sizes(recipe)]
    made += [{"value": one["value"]} for one in recipe.get("scalars", ())]
    for name in parameters_of(recipe):
        tensor = tensors[name]
        argument: Argument = {
            "name": name,
            "shape": [number_of(size, dims) for size in tensor["shape"]],
            "dtype": tensor["dtype"],
        }
        if name in recipe.get("layouts", {}):
            argument["layout"] = recipe["layouts"][name]
        if name in inputs:
            argument.update(low=tensor["low"], high=tensor["high"])
            for kind in ("distinct", "special"):
                if tensor.get(kind):
                    argument[kind] = True
        elif tensor["ulp"] is not None:
            argument["ulp"] = tensor["ulp"]
        made.append(argument)
    return made


def check_recipe(recipe: Recipe) -> None:
    """Raise InternalError for a recipe that the generator does not make (a damaged file)."""
    missing = {"index", "dims", "symbolic", "inputs", "stages"} - set(recipe)
    if missing:
        raise InternalError(f"the recipe lacks {', '.join(sorted(missing))}")
