"""arithmetic: analyzer: is not proven

Found by ``tilesmith fuzz tir``, seed 910166.
"""

from tilesmith.testing.fuzz import replay

# w != z, where x in 4 + [0, 7); y in x + [0, 3); z in y + 1 + [0, 4); w in -3 + [0, x); z > w
CASE = {'seed': 910166,
 'recipe': {'index': 'int32', 'dims': {}, 'symbolic': [], 'inputs': [], 'stages': []},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [],
 'extra': [],
 'config': {},
 'field': 'arithmetic',
 'program': 'arithmetic',
 'arithmetic': {'seeds': [986155263]}}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
