"""graph: compile: raises CodegenError in codegen/llvm/expressions.py:_var

Found by ``tilesmith fuzz tir``, seed 7100170.
"""

from tilesmith.testing.fuzz import replay

# CodegenError: function 'main': variable 'c' is not defined here
#   every variable must be a parameter or be bound by a loop or a let
#   File "/work/main/tilesmith/codegen/llvm/values.py", line 56, in value
#     found = NODE_RULES[expr.__class__](self, expr)
#             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/main/tilesmith/codegen/llvm/arithmetic.py", line 259, in _compareop
#     a, b = emit.value(expr.a), emit.value(expr.b)
#            ^^^^^^^^^^^^^^^^^^
CASE = {'seed': 7100170,
 'recipe': {'index': 'int64',
            'dims': {'a': 1, 'b': 1, 'c': 1, 'd': 1},
            'symbolic': ['c'],
            'inputs': [{'name': 'A0',
                        'shape': ['a', 'b'],
                        'dtype': 'float32',
                        'low': -4,
                        'high': 5,
                        'ulp': None},
                       {'name': 'A1',
                        'shape': ['c', 2],
                        'dtype': 'float32',
                        'low': -4,
                        'high': 5,
                        'ulp': None},
                       {'name': 'A2',
                        'shape': [2, 'd'],
                        'dtype': 'float32',
                        'low': -4,
                        'high': 5,
                        'ulp': None},
                       {'name': 'A3',
                        'shape': [2, 'c'],
                        'dtype': 'float32',
                        'low': 0,
                        'high': 500,
                        'ulp': None,
                        'distinct': True}],
            'stages': [{'kind': 'compute',
                        'axes': [{'size': ['+', 'c', 1], 'type': 'S'},
                                 {'size': 2, 'type': 'S'}],
                        'value': ['const', 'float32', -1],
                        'indices': [['axis', 0], ['axis', 1]],
                        'name': 'B1',
                        'tensors': [{'name': 'T1',
                                     'shape': [['+', 'c', 1], 2],
                                     'dtype': 'float32',
                                     'low': 1,
                                     'high': 1,
                                     'ulp': None}],
                        'out': False,
                        'binding': 'plain',
                        'factor': 2,
                        'loop_order': [1, 0]}]},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [],
 'extra': [],
 'config': {},
 'field': 'graphs',
 'program': 'graph',
 'detours': {'A0': [], 'A1': [], 'T0': [], 'T1': ['expanded']},
 'passes': ['LegalizeOps', 'AnnotateTIROpPattern', 'FuseOps'],
 'pipeline': 'zero',
 'scripts': False}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
