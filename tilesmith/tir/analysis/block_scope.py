"""Finds the dependences between the blocks of a scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from tilesmith.ir import Node
from tilesmith.ir.queries import nodes
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.stmt import Block, BlockRealize, Stmt

__all__ = ["BlockScope", "DepKind", "Dependency", "child_blocks"]


class DepKind(IntEnum):
    """The kind of a dependence: read after write, write after write, or write after read."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


class Dependency(NamedTuple):
    """A dependence: ``dst`` has to run after ``src``; both are blocks, or their identities in a
    schedule."""

    src: Any
    dst: Any
    kind: DepKind
    buffer: Buffer


def child_blocks(stmt: Stmt) -> list[BlockRealize]:
    """Return the outermost blocks below a statement (of a block: those in its ``init`` and body),
    in order."""
    if isinstance(stmt, Block):
        roots: list[Node] = [stmt.body] if stmt.init is None else [stmt.init, stmt.body]
    else:
        roots = stmt.children()
    return list(nodes(roots, BlockRealize, enter=lambda node: not isinstance(node, BlockRealize)))


class BlockScope:
    """The blocks right inside a block, with the dependences between them.

    Blocks depend on each other through whole buffers: the regions are not compared.
    """

    def __init__(self, scope: Block) -> None:
        self.blocks = child_blocks(scope)
        self.dependencies = list(self._dependencies())

    def _dependencies(self) -> Iterator[Dependency]:
        readers: dict[Buffer, list[BlockRealize]] = {}
        writers: dict[Buffer, list[BlockRealize]] = {}
        for realize in self.blocks:
            read = list(dict.fromkeys([region.buffer for region in realize.block.reads]))
            written = list(dict.fromkeys([region.buffer for region in realize.block.writes]))
            for buffer in read:
                for writer in writers.get(buffer, ()):
                    yield Dependency(writer, realize, DepKind.RAW, buffer)
            for buffer in written:
                for reader in readers.get(buffer, ()):
                    yield Dependency(reader, realize, DepKind.WAR, buffer)
                for writer in writers.get(buffer, ()):
                    yield Dependency(writer, realize, DepKind.WAW, buffer)
            for buffer in read:
                readers.setdefault(buffer, []).append(realize)
            for buffer in written:
                writers.setdefault(buffer, []).append(realize)

    def name_by(self, identity: Callable[[BlockRealize], Any]) -> None:
        """Replace the blocks in the dependences by the identities that a schedule gave them."""
        self.dependencies = [
            Dependency(identity(d.src), identity(d.dst), d.kind, d.buffer)
            for d in self.dependencies
        ]

    def get_deps_by_src(self, block: Any) -> list[Dependency]:
        """Return the dependences that start at a block."""
        return [d for d in self.dependencies if _is(d.src, block)]

    def get_deps_by_dst(self, block: Any) -> list[Dependency]:
        """Return the dependences that end at a block."""
        return [d for d in self.dependencies if _is(d.dst, block)]

    def producers(self, block: BlockRealize | Block) -> list[BlockRealize]:
        """Return the blocks that write what a block reads, each once."""
        return _distinct([d.src for d in self.get_deps_by_dst(block) if d.kind is DepKind.RAW])

    def consumers(self, block: BlockRealize | Block) -> list[BlockRealize]:
        """Return the blocks that read what a block writes, each once."""
        return _distinct([d.dst for d in self.get_deps_by_src(block) if d.kind is DepKind.RAW])


def _is(one: Any, block: Any) -> bool:
    return one is block or (isinstance(one, BlockRealize) and one.block is block)


def _distinct(blocks: list[BlockRealize]) -> list[BlockRealize]:
    return list({id(block): block for block in blocks}.values())
