"""Builds programs for the schedule rules from their choices.

A program is plain data: ``{"form", "seed", "choices", "layouts", "target"}``. The choices are made
by the seed where they are not given.
"""

from __future__ import annotations

import random
from typing import Any

from tilesmith import te
from tilesmith.runtime.dtype import DataType
from tilesmith.te import Tensor
from tilesmith.testing.fuzz.layouts import LAID_OUT, declaration, draw_layout
from tilesmith.testing.fuzz.rules import movements, products, rows, windows
from tilesmith.testing.fuzz.rules.maker import FORMS, Maker
from tilesmith.testing.fuzz.rules.targets import draw_target, simpler_targets
from tilesmith.tir import Block, PrimFunc, decl_buffer
from tilesmith.tir.functor import Substitution
from tilesmith.tir.queries import statements

__all__ = ["build_for_rules", "draw_for_rules", "simpler_for_rules"]

Program = dict[str, Any]
Arguments = list[dict[str, Any]]
FAMILIES = (movements, products, rows, windows)
"""The modules that register forms."""


def draw_for_rules(rng: random.Random) -> Program:
    """Return a random program with a target."""
    form = rng.choices(list(FORMS), [weight for weight, _ in FORMS.values()])[0]
    program: Program = {
        "form": form, "seed": rng.randrange(1 << 30), "choices": [], "layouts": {},
        "target": draw_target(rng),
    }  # fmt: skip
    make, tensors = _made(program)
    program["choices"] = make.choices
    if rng.random() < 0.2:
        program["layouts"] = {
            tensor.name: draw_layout(rng, len(tensor.shape))
            for tensor in tensors
            if rng.random() < 0.5
            and str(tensor.dtype) in LAID_OUT
            and all(make.least(size) for size in tensor.shape)
        }
    return program


def _made(program: Program) -> tuple[Maker, list[Tensor]]:
    """Return the tensors of a program, inputs first, and who made them."""
    make = Maker(random.Random(program["seed"]), program["choices"])
    made = FORMS[program["form"]][1](make)
    results = made if isinstance(made, list) else [made]
    used = _reached(results)
    inputs = [tensor for tensor in make.inputs if id(tensor.op) in used]
    return make, [*inputs, *[one for one in results if id(one) not in map(id, inputs)]]


def _reached(results: list[Tensor]) -> set[int]:
    """Return the operations that results are made of, by identity."""
    found: set[int] = set()
    left = [one.op for one in results]
    while left:
        op = left.pop()
        if id(op) not in found:
            found.add(id(op))
            left += [tensor.op for tensor in op.input_tensors]
    return found


def build_for_rules(program: Program) -> tuple[PrimFunc, list[Arguments]]:
    """Return the function of a program, and one or two sets of arguments (two where sizes are
    open).
    """
    make, tensors = _made(program)
    function = te.create_prim_func(tensors, index_dtype_override=make.index)
    layouts = _fitting(program["layouts"], function)
    function = _laid_out(function, layouts, make.index)
    sets = [_arguments(make, tensors, function, layouts, call) for call in range(2)]
    return function, sets if sets[0] != sets[1] else sets[:1]


def _fitting(layouts: dict[str, Any], function: PrimFunc) -> dict[str, Any]:
    """Return the layouts of parameters of which no block has a view: views say that they are dense
    (functions with loops of their own, such as cumulative sums, have them).
    """
    blocks = [one for one in statements(function.body) if isinstance(one, Block)]
    shown = {match.source.buffer for block in blocks for match in block.match_buffers}
    fitting = {}
    for buffer in function.buffer_map.values():
        layout = layouts.get(buffer.name)
        if layout and len(layout["order"]) == len(buffer.shape) and buffer not in shown:
            fitting[buffer.name] = layout
    return fitting


def _laid_out(function: PrimFunc, layouts: dict[str, Any], index: str) -> PrimFunc:
    """Return the function with parameters that are not dense in memory."""
    changed = {}
    for buffer in function.buffer_map.values():
        layout = layouts.get(buffer.name)
        if layout is not None:
            more = declaration(buffer.name, layout, list(buffer.shape), index)
            changed[buffer] = decl_buffer(buffer.shape, buffer.dtype, buffer.name, **more)
    if not changed:
        return function
    body = Substitution({}, changed).visit(function.body)
    parameters = {var: changed.get(one, one) for var, one in function.buffer_map.items()}
    return function.with_fields(body=body, buffer_map=parameters)


def _arguments(
    make: Maker, tensors: list[Tensor], function: PrimFunc, layouts: dict[str, Any], call: int
) -> Arguments:
    """Return the arguments of one call: what `values.arrays` makes arrays of."""
    made: Arguments = []
    for param, tensor in zip(function.params, tensors, strict=True):
        buffer = function.buffer_map[param]
        known: dict[str, Any] = {"name": buffer.name}
        if tensor.name in make.arguments and any(tensor is one for one in make.inputs):
            known.update(make.arguments[tensor.name])
        elif DataType(tensor.dtype).is_float and str(tensor.dtype) in make.near:
            known["near"] = make.near[str(tensor.dtype)]
        elif make.near:
            known["near"] = 1.0  # an integer made of inexact numbers
        known.update(
            dtype=str(tensor.dtype), shape=[make.number_of(size, call) for size in tensor.shape]
        )
        if buffer.name in layouts:
            known["layout"] = layouts[buffer.name]
        made.append(known)
    return made


def simpler_for_rules(program: Program) -> Any:
    """Yield programs that are simpler in one choice, a layout, or the target."""
    for text in simpler_targets(program["target"]):
        yield {**program, "target": text}
    for name in program["layouts"]:
        kept = {other: one for other, one in program["layouts"].items() if other != name}
        yield {**program, "layouts": kept}
    choices = program["choices"]
    for place, chosen in enumerate(choices):
        for simpler in sorted({0, chosen // 2, chosen - 1}):
            if 0 <= simpler < chosen:
                yield {**program, "choices": [*choices[:place], simpler, *choices[place + 1 :]]}
