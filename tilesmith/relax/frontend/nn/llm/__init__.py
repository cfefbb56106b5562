"""Pieces of language models: rotary positions, attention over trees of tokens, paged caches of keys
and values.
"""

from tilesmith.relax.frontend.nn.llm import kv_cache, position_embedding, tree_attn
from tilesmith.relax.frontend.nn.llm.kv_cache import PagedKVCache
from tilesmith.relax.frontend.nn.llm.position_embedding import llama_rope

__all__ = ["PagedKVCache", "kv_cache", "llama_rope", "position_embedding", "tree_attn"]
