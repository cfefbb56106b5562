"""pass: tir.HoistExpression: raises VerifyError in tir/analysis/well_formed.py:fail (the
variable _ is bound again inside its own scope, where it is bound)

Found by ``tilesmith fuzz tir``, seed 9910503.
"""

from tilesmith.script import tir as T
from tilesmith.testing.fuzz import replay

# VerifyError: the variable 'x' is bound again inside its own scope, where it is bound already
#   make a new variable for the inner one
#   in the function 'main'
#   the program:
#   @T.prim_func
#   def main(T0: T.Buffer((2,), "float32")):
#   File "/work/main/tilesmith/tir/analysis/variables.py", line 50, in walk
#     self._define_all(value, node, defined)
ARGUMENTS = [[{'name': 'T0', 'shape': [2], 'dtype': 'float32'}]]  # fmt: skip


@T.prim_func
def main(T0: T.Buffer((2,), "float32")):
    T.func_attr({"tir.noalias": True})
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("B0"):
            T.reads(T0[-1:1])
            T.writes(T0[0:2])
            for v0 in range(2):
                if v0 == 0:
                    x = T.float32()
                    T0[v0] = T.Let(x, where={x: T.float32(1.0)})
                else:
                    x = T.float32()
                    T0[v0] = T0[v0 - 1] + T.Let(x, where={x: T.float32(1.0)})


def schedule(sch):
    pass


def test_replay():
    replay.check(
        main,
        schedule,
        ARGUMENTS,
        "pass",
        ["llvm"],
        extra=[["tir.FlattenBuffer", "HoistExpression"]],
    )
