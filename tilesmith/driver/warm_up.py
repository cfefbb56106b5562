"""What a worker does before the first kernel comes."""

from tilesmith.driver.kernels import compile_job
from tilesmith.ir import IRModule, Range, Var
from tilesmith.support.fallbacks import capture_fallbacks
from tilesmith.support.knobs import knobs
from tilesmith.target import Target
from tilesmith.tir import (
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    decl_buffer,
)


def warm_up(target: str = "llvm") -> None:
    """Compile a small kernel, so that the compiler is loaded when the first job arrives; meanwhile
    the parent reads the model.
    """
    source, result = decl_buffer((4,), "float32"), decl_buffer((4,), "float32")
    i, place = Var("i", "int32"), Var("v", "int32")
    block = Block(
        [IterVar(Range(0, 4), place, IterVar.DataPar)],
        [BufferRegion.from_point(source, [place])],
        [BufferRegion.from_point(result, [place])],
        "copy",
        BufferStore(result, BufferLoad(source, [place]) * 2.0, [place]),
    )
    loop = For(i, 0, 4, ForKind.SERIAL, BlockRealize([i], True, block))
    body = BlockRealize([], True, Block([], [], [], "root", loop))
    params = [Var("a", "handle"), Var("b", "handle")]
    copy = PrimFunc(params, body, None, dict(zip(params, (source, result))))
    with knobs.override(check=False), capture_fallbacks():  # not a program of the user's
        compile_job(IRModule({"warm_up": copy}), Target(target))
