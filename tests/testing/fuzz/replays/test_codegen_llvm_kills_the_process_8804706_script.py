"""codegen: llvm: kills the process (signal 6)

Found by ``tilesmith fuzz tir``, seed 8804706.
"""

from tilesmith.testing.fuzz import replay

# a worker process died (signal 6) while it did a job
CASE = {'seed': 8804706,
 'recipe': {'index': 'int32',
            'dims': {'a': 1, 'b': 1, 'c': 4, 'd': 1},
            'symbolic': [],
            'inputs': [{'name': 'A0',
                        'shape': ['c', 'c'],
                        'dtype': 'int32',
                        'low': -4,
                        'high': 5,
                        'ulp': None},
                       {'name': 'A1',
                        'shape': ['b', ['+', 'c', 2]],
                        'dtype': 'int32',
                        'low': -4,
                        'high': 5,
                        'ulp': None},
                       {'name': 'A2',
                        'shape': ['c', 'b', 3],
                        'dtype': 'int32',
                        'low': -4,
                        'high': 5,
                        'ulp': None}],
            'stages': [{'kind': 'reduce',
                        'axes': [{'size': 'c', 'type': 'S'}, {'size': 'c', 'type': 'S'},
                                 {'size': 3, 'type': 'R'}, {'size': 'b', 'type': 'R'}],
                        'value': ['mul',
                                  ['cast', 'int64',
                                   ['load', 'A1', ['axis', 3],
                                    ['add', ['axis', 1], ['axis', 2]]]],
                                  ['cast', 'int64',
                                   ['load', 'A2', ['axis', 0], ['axis', 3], ['axis', 2]]]],
                        'combiner': 'sum',
                        'indices': [['axis', 0], ['axis', 1]],
                        'binding': 'plain',
                        'name': 'B1',
                        'tensors': [{'name': 'T1',
                                     'shape': ['c', 'c'],
                                     'dtype': 'int64',
                                     'low': -60,
                                     'high': 75,
                                     'ulp': None}],
                        'out': False,
                        'factor': 2,
                        'loops': {'margins': [1, 2, 2, 0],
                                  'kinds': {'0': 'unroll'},
                                  'pragma': False}}]},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [],
 'extra': [],
 'config': {},
 'field': 'loops',
 'program': 'loops'}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
