"""script: print and parse: raises ScriptError in script/definitions.py:run_parser

Found by ``tilesmith fuzz tir``, seed 9302314.
"""

from tilesmith.testing.fuzz import replay

# ScriptError: cannot make an expression of index_var_0[0:2] (BufferRegion)
#   <script f9b9a532>:25:71
#               T2_1[0:2] = T.min(T.Broadcast(T.Cast("float32", 0), 2),
# T.min(T0[index_var_0[0:2]], T.Broadcast(A1_1[0], 2)))
#                                                                             ^^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/fz/tilesmith/testing/fuzz/checks.py", line 224, in guarded
#     yield
#   File "/work/wt/fz/tilesmith/testing/fuzz/checks.py", line 242, in check_script
#     again = from_source(text, check_well_formed=False)
CASE = {'seed': 9302314,
 'recipe': {'index': 'int32',
            'dims': {'a': 1, 'b': 2, 'c': 2, 'd': 1},
            'symbolic': [],
            'inputs': [{'name': 'A0',
                        'shape': ['a', 'd'],
                        'dtype': 'bool',
                        'low': 0,
                        'high': 1,
                        'ulp': None},
                       {'name': 'A1',
                        'shape': ['d', 'd'],
                        'dtype': 'float32',
                        'low': -4,
                        'high': 5,
                        'ulp': None},
                       {'name': 'A2',
                        'shape': ['d', 'c'],
                        'dtype': 'float32',
                        'low': -4,
                        'high': 5,
                        'ulp': None}],
            'stages': [{'kind': 'scan',
                        'axes': [{'size': 'b', 'type': 'S'}],
                        'value': ['cast', 'float32', ['load', 'A0', ['int', 0], ['int', 0]]],
                        'while': False,
                        'indices': [['axis', 0]],
                        'name': 'B0',
                        'tensors': [{'name': 'T0',
                                     'shape': ['b'],
                                     'dtype': 'float32',
                                     'low': 0,
                                     'high': 17,
                                     'ulp': None}],
                        'out': False,
                        'binding': 'plain',
                        'factor': 2},
                       {'kind': 'reduce',
                        'axes': [{'size': 'd', 'type': 'S'}, {'size': 'c', 'type': 'S'},
                                 {'size': 'd', 'type': 'R'}],
                        'value': ['cast', 'int32', ['load', 'A1', ['axis', 0], ['axis', 2]]],
                        'combiner': 'sum',
                        'indices': [['axis', 0], ['axis', 1]],
                        'binding': 'plain',
                        'name': 'B1',
                        'tensors': [{'name': 'T1',
                                     'shape': ['d', 'c'],
                                     'dtype': 'int32',
                                     'low': -80,
                                     'high': 100,
                                     'ulp': None}],
                        'out': False,
                        'factor': 2},
                       {'kind': 'compute',
                        'axes': [{'size': 'c', 'type': 'S'}, {'size': 'd', 'type': 'S'}],
                        'indices': [['axis', 0], ['axis', 1]],
                        'binding': 'inner',
                        'value': ['min', ['cast', 'float32', ['axis', 1]],
                                  ['min',
                                   ['cast', 'float32',
                                    ['load', 'T0', ['floormod', ['axis', 0], ['size', 'b']]]],
                                   ['cast', 'float32',
                                    ['load', 'A1', ['int', 0], ['axis', 1]]]]],
                        'name': 'B2',
                        'tensors': [{'name': 'T2',
                                     'shape': ['c', 'd'],
                                     'dtype': 'float32',
                                     'low': -28,
                                     'high': 5,
                                     'ulp': None}],
                        'out': False,
                        'factor': 2}]},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [['CacheIndex', 136326550], ['Vectorize', 457019002]],
 'extra': [],
 'config': {},
 'field': 'scripts',
 'scripts': True}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
