"""The tables of PTX instructions: NVRTC compiles each of them for the architecture it names."""

import pytest

from tests.codegen.gpu_products import mnemonics, needs_nvdisasm
from tilesmith.codegen.gpu import copy_functions, mma_functions, wmma_functions
from tilesmith.codegen.gpu.mma_functions import (
    PTX_KINDS,
    MmaError,
    ldmatrix_function,
    mma_function,
    mma_sp_function,
)
from tilesmith.codegen.gpu.wmma_functions import (
    Fragment,
    fill_function,
    move_function,
    product_function,
)


def with_calls(functions):
    """The texts of functions and of those that they call."""
    texts = {}

    def add(function):
        for other in function.calls:
            add(other)
        texts.setdefault(function.name, function.text)

    for function in functions:
        add(function)
    return texts


def file_of(functions):
    """A file with one kernel for each function, whose arguments are memory and numbers."""
    texts = with_calls(functions)
    for function in functions:
        head = function.text[function.text.index("(") + 1 : function.text.index(")")]
        parameters = [part.strip() for part in head.split(",")] if head else []
        names = ", ".join([part.split()[-1].lstrip("*") for part in parameters])
        texts["kernel " + function.name] = (
            f'extern "C" __global__ void k_{function.name}({head}) {{ {function.name}({names}); }}'
        )
    return "\n".join(texts.values())


SELECTORS = {
    ("f16", "m16n8k16"): 4, ("bf16", "m16n8k16"): 4, ("tf32", "m16n8k8"): 4,
    ("f16", "m16n8k32"): 2, ("bf16", "m16n8k32"): 2, ("tf32", "m16n8k16"): 2,
    ("s8", "m16n8k32"): 2, ("u8", "m16n8k32"): 2, ("s4", "m16n8k64"): 2, ("u4", "m16n8k64"): 2,
}  # fmt: skip
"""How many selectors the PTX ISA's section about metadata has: one, two or all of four neighbouring
threads give theirs; 1 for other products."""


def all_products():
    found = []
    for a, shapes in mma_functions._SHAPES.items():
        others, results = mma_functions._PARTNERS[a]
        for shape in shapes:
            for b in others:
                for c in results:
                    for operator in ("xor", "and") if a == "b1" else ("",):
                        found.append(
                            mma_function(shape, ("row", "col"), (a, b, c), operator=operator)
                        )
    found.append(mma_function("m16n8k32", ("row", "col"), ("s8", "s8", "s32"), saturate=True))
    for a, shapes in mma_functions._SPARSE_SHAPES.items():
        others, results = mma_functions._PARTNERS[a]
        for shape in shapes:
            for c in results if not a.startswith("e") else ("f32",):
                for selector in range(SELECTORS.get((a, shape), 1)):
                    found.append(
                        mma_sp_function(shape, ("row", "col"), (a, others[0], c), selector)
                    )
    found += [ldmatrix_function(count, way) for count in (1, 2, 4) for way in (False, True)]
    return found


def all_fragments():
    found = {}
    for name, (shapes, results, any_layout) in wmma_functions._SHAPES.items():
        kind = PTX_KINDS[name]
        for shape in shapes:
            for layouts in (("row", "col"), ("col", "row"))[: 2 if any_layout else 1]:
                a = Fragment("matrix_a", shape, kind, layouts[0])
                b = Fragment("matrix_b", shape, kind, layouts[1])
                for result in results:
                    c = Fragment("accumulator", shape, PTX_KINDS[result], "row")
                    made = [
                        move_function(a, False, "shared"), move_function(b, False, "global"),
                        move_function(c, True, "global"), move_function(c, False, "shared"),
                        product_function(a, b, c, c, "xor" if name == "b1" else ""),
                        fill_function(c),
                    ]  # fmt: skip
                    found.update({function.name: function for function in made})
    return list(found.values())


def all_copies():
    names = [name for name in copy_functions.__all__ if name.isupper()]
    found = [getattr(copy_functions, name) for name in names]
    found += [copy_functions.copy_function(count, way) for count in (4, 8, 16) for way in (0, 1)]
    return [*found, copy_functions.wait_group_function(2)]


MACHINE_WORDS = {
    75: ["HMMA.1688.F32", "HMMA.1688.F16", "IMMA.8816.S8.S8", "BMMA.88128.XOR.POPC",
         "LDSM.16.M88.4", "LDSM.16.MT88.2"],
    80: ["HMMA.16816.F32", "HMMA.16816.F32.BF16", "HMMA.1688.F32.TF32", "IMMA.16832.U8.S8",
         "DMMA.884", "HMMA.SP.16832.F16", "IMMA.16864.S4.U4", "LDGSTS.E.64", "LDGDEPBAR"],
    89: ["QMMA.16832.F32.E4M3.E5M2", "QMMA.SP.16864.F32.E4M3.E4M3"],
    90: ["DMMA.16x8x16", "UBLKCP.S.G", "SYNCS.PHASECHK.TRANS64.TRYWAIT"],
}  # fmt: skip


@needs_nvdisasm
@pytest.mark.parametrize("arch", MACHINE_WORDS)
def test_all_instructions_are_compiled(arch):
    """Each for the oldest architecture (of those that NVRTC knows) that has it."""
    functions = {
        function.name: function
        for function in [*all_products(), *all_fragments(), *all_copies()]
        if max(function.architecture, 75) == arch
    }
    found = mnemonics(file_of(list(functions.values())), f"sm_{arch}")
    assert [word for word in MACHINE_WORDS[arch] if word not in found] == []


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: mma_function("m8n8k8", ("row", "col"), ("fp16", "fp16", "fp32")),
         "mma on fp16 has no shape 'm8n8k8'; its shapes are m8n8k4, m16n8k8, m16n8k16"),
        (lambda: mma_function("m16n8k8", ("row", "row"), ("fp16", "fp16", "fp32")),
         "multiplies A in 'row' by B in 'col', not row, row"),
        (lambda: mma_function("m16n8k16", ("row", "col"), ("fp16", "bf16", "fp32")),
         "with fp16 go f16, which give f16 or f32"),
        (lambda: mma_function("m16n8k8", ("row", "col"), ("fp17", "fp16", "fp32")), "fp17"),
        (lambda: mma_function("m8n8k128", ("row", "col"), ("b1", "b1", "s32")),
         "needs the operator 'xor' or 'and'"),
        (lambda: mma_function("m8n8k4", ("row", "col"), ("fp64", "fp64", "fp64"), saturate=True),
         "mma on f64 cannot saturate"),
        (lambda: mma_sp_function("m16n8k16", ("row", "col"), ("fp16", "fp16", "fp16"), 4),
         "the selector of mma.sp m16n8k16 on fp16 is 0, 1, 2, 3, not 4"),
        (lambda: mma_sp_function("m16n8k32", ("row", "col"), ("fp16", "fp16", "fp16"), 2),
         "the selector of mma.sp m16n8k32 on fp16 is 0, 1, not 2"),
        (lambda: mma_sp_function("m16n8k64", ("row", "col"), ("s8", "s8", "s32"), 1),
         "the selector of mma.sp m16n8k64 on s8 is 0, not 1"),
        (lambda: mma_sp_function("m16n8k64", ("row", "col"), ("e4m3", "e4m3", "fp16"), 0),
         "adds up in fp32"),
        (lambda: ldmatrix_function(3, False), "1, 2 or 4 matrices, not 3"),
        (lambda: Fragment("matrix_a", "m16n16k8", PTX_KINDS["fp16"], "row").check(),
         "no matrix_a of f16 of shape m16n16k8: its shapes are m16n16k16"),
        (lambda: Fragment("matrix_a", "m16n16k16", PTX_KINDS["e4m3"], "row").check(),
         "it has no fragments at all"),
        (lambda: fill_function(Fragment("matrix_a", "m8n8k32", PTX_KINDS["s4"], "row")),
         "a fragment of s4 cannot be filled"),
    ],
)  # fmt: skip
def test_what_the_tables_refuse(make, message):
    with pytest.raises(MmaError) as caught:
        make()
    assert message in str(caught.value)
