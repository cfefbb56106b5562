"""arithmetic: analyzer: is not proven

Found by ``tilesmith fuzz tir``, seed 160008345.
"""

from tilesmith.testing.fuzz import replay

# (x * y + z) // y == x, where x in 0 + [0, 2); y in 4 + [0, x); z in 0 + [0, y)
CASE = {'seed': 160008345,
 'recipe': {'index': 'int32', 'dims': {}, 'symbolic': [], 'inputs': [], 'stages': []},
 'only': None,
 'back_ends': ['llvm'],
 'steps': [],
 'extra': [],
 'config': {},
 'field': 'arithmetic',
 'program': 'arithmetic',
 'arithmetic': {'seeds': [504909256]}}  # fmt: skip


def test_replay():
    replay.check_case(CASE)
