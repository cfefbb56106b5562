"""script: print and parse: raises ScriptError in ?

Found by ``tilesmith fuzz tir``, seed 9602566.
"""

from tilesmith.testing.fuzz import replay

# ScriptError: a size of a buffer cannot be negative, got -1
#   <script 47558805>:10:21
#               A0_global = T.alloc_buffer((1, -1), "int32")
#                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#   File "/work/wt/fuzz/tilesmith/testing/fuzz/checks.py", line 227, in guarded
#     yield
#   File "/work/wt/fuzz/tilesmith/testing/fuzz/checks.py", line 245, in check_script
#     again = from_source(text, check_well_formed=False)
CASE = {'seed': 9602566,
 'recipe': {'index': 'int32',
            'dims': {'a': 1, 'b': 1, 'c': 1, 'd': 1},
            'symbolic': [],
            'inputs': [{'name': 'A0',
                        'shape': [2, 'c'],
                        'dtype': 'int32',
                        'low': -4,
                        'high': 5,
                        'ulp': None},
                       {'name': 'T0',
                        'shape': ['c'],
                        'dtype': 'int4',
                        'low': -4,
                        'high': 5,
                        'ulp': None}],
            'stages': [{'kind': 'compute',
                        'axes': [{'size': 'c', 'type': 'S'}],
                        'indices': [['axis', 0]],
                        'binding': 'plain',
                        'value': ['cast', 'float8_e4m3fn',
                                  ['if', ['le', ['int', 0], ['sub', ['axis', 0], ['int', 2]]],
                                   ['load', 'A0', ['int', 0], ['int', 2]],
                                   ['const', 'int32', 0]]],
                        'let': False,
                        'name': 'B1',
                        'tensors': [{'name': 'T1',
                                     'shape': ['c'],
                                     'dtype': 'float8_e4m3fn',
                                     'low': 0,
                                     'high': 0,
                                     'ulp': None}],
                        'out': False,
                        'factor': 2}]},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [['CacheRead', 534184535]],
 'extra': [],
 'config': {},
 'field': 'narrow'}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
