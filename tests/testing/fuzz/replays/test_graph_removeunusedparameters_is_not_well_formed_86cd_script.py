"""graph: RemoveUnusedParameters: is not well formed

Found by ``tilesmith fuzz tir``, seed 9911255.
"""

from tilesmith.testing.fuzz import replay

# # from tilesmith.script import ir as I
# # from tilesmith.script import relax as R
# # from tilesmith.script import tir as T
# @I.ir_module
# class Module:
#     @T.prim_func
#     def B1(T0: T.Buffer((1,), "int32"), T1: T.Buffer((1,), "int32"), c: T.int32):
CASE = {'seed': 9911255,
 'recipe': {'index': 'int32',
            'dims': {'a': 1, 'b': 1, 'c': 1, 'd': 1},
            'symbolic': ['c'],
            'inputs': [{'name': 'A0',
                        'shape': ['b', 'b'],
                        'dtype': 'bool',
                        'low': 0,
                        'high': 1,
                        'ulp': None},
                       {'name': 'T0',
                        'shape': ['b'],
                        'dtype': 'int32',
                        'low': 0,
                        'high': 1,
                        'ulp': None}],
            'stages': [{'kind': 'compute',
                        'axes': [{'size': 'b', 'type': 'S'}],
                        'indices': [['axis', 0]],
                        'value': ['load', 'T0', ['axis', 0]],
                        'name': 'B1',
                        'tensors': [{'name': 'T1',
                                     'shape': ['b'],
                                     'dtype': 'int32',
                                     'low': 0,
                                     'high': 1,
                                     'ulp': None}],
                        'out': False,
                        'binding': 'plain',
                        'factor': 2}]},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [],
 'extra': [],
 'config': {},
 'field': 'graphs',
 'program': 'graph',
 'detours': {'A0': [], 'T1': ['parts']},
 'passes': ['LegalizeOps', 'AnnotateTIROpPattern', 'FuseOps', 'RemoveUnusedParameters'],
 'pipeline': 'zero',
 'scripts': False}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
