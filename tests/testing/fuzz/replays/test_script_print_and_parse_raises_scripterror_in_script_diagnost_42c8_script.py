"""script: print and parse: raises ScriptError in script/diagnostics.py:from_text

Found by ``tilesmith fuzz tir``, seed 9000093.
"""

from tilesmith.testing.fuzz import replay

# ScriptError: no valid Python: invalid syntax
#   <script 92965fab>:21:29
#                           T.reads(<BufferRegion that cannot be printed: TypeMismatchError: Add
# needs operands of one dtype, got int64 and int32>)
#                                   ^
#   File "/tmp/fz7/tilesmith/testing/fuzz/checks.py", line 219, in guarded
#     yield
#   File "/tmp/fz7/tilesmith/testing/fuzz/checks.py", line 237, in check_script
#     again = from_source(text, check_well_formed=False)
CASE = {'seed': 9000093,
 'recipe': {'index': 'int64',
            'dims': {'a': 2, 'b': 1, 'c': 1, 'd': 1},
            'symbolic': [],
            'inputs': [{'name': 'A0',
                        'shape': ['b'],
                        'dtype': 'float32',
                        'low': -4,
                        'high': 5,
                        'ulp': None},
                       {'name': 'A1',
                        'shape': ['a'],
                        'dtype': 'int32',
                        'low': -4,
                        'high': 5,
                        'ulp': None}],
            'stages': [{'kind': 'compute',
                        'axes': [{'size': ['+', 'a', 2], 'type': 'S'}],
                        'indices': [['axis', 0]],
                        'value': ['const', 'int32', 1],
                        'name': 'B1',
                        'tensors': [{'name': 'T1',
                                     'shape': [['+', 'a', 2]],
                                     'dtype': 'int32',
                                     'low': -4,
                                     'high': 5,
                                     'ulp': None}],
                        'out': False,
                        'binding': 'plain',
                        'factor': 2}]},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [['CacheWrite', 763296741], ['Tensorize', 858219000]],
 'extra': [],
 'config': {},
 'field': 'scripts',
 'scripts': True}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
