"""arithmetic: analyzer: is not proven

Found by ``tilesmith fuzz tir``, seed 61453.
"""

from tilesmith.testing.fuzz import replay

# T.max(x, x - z + 2) >= x - z + 2, where x in 1 + [0, 7); z = y * 3 + -1; x * 2 <= z * 2
CASE = {'seed': 61453,
 'recipe': {'index': 'int32', 'dims': {}, 'symbolic': [], 'inputs': [], 'stages': []},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [],
 'extra': [],
 'config': {},
 'field': 'arithmetic',
 'program': 'arithmetic',
 'arithmetic': {'seeds': [645187058]}}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
