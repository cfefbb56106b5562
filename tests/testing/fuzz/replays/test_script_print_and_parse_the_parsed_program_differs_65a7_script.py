"""script: print and parse: the parsed program differs

Found by ``tilesmith fuzz tir``, seed 7115924.
"""

from tilesmith.testing.fuzz import replay

# # from tilesmith.script import ir as I
# # from tilesmith.script import relax as R
# # from tilesmith.script import tir as T
# @I.ir_module
# class Module:
#     @T.prim_func
#     def B3(T3_handle: T.handle, d: T.int64):
CASE = {'seed': 7115924,
 'recipe': {'index': 'int64',
            'dims': {'a': 1, 'b': 1, 'c': 1, 'd': 1},
            'symbolic': ['d'],
            'inputs': [{'name': 'A0',
                        'shape': ['d', 'a'],
                        'dtype': 'bool',
                        'low': 0,
                        'high': 1,
                        'ulp': None},
                       {'name': 'T1',
                        'shape': [['+', 'd', 1], 'd'],
                        'dtype': 'int32',
                        'low': -4,
                        'high': 4,
                        'ulp': None}],
            'stages': [{'kind': 'compute',
                        'axes': [{'size': ['+', ['+', 'd', 1], 4], 'type': 'S'},
                                 {'size': 'd', 'type': 'S'}],
                        'indices': [['axis', 0], ['axis', 1]],
                        'value': ['const', 'int32', 0],
                        'name': 'B3',
                        'tensors': [{'name': 'T3',
                                     'shape': [['+', ['+', 'd', 1], 4], 'd'],
                                     'dtype': 'int32',
                                     'low': -4,
                                     'high': 4,
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
 'detours': {'T1': [], 'T2': [], 'T3': ['wider'], 'T4': []},
 'passes': ['LegalizeOps', 'AnnotateTIROpPattern', 'FuseOps', 'FuseTIR', 'CallTIRRewrite'],
 'pipeline': 'zero',
 'scripts': True}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
