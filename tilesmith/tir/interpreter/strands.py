"""Runs the threads of a block apart from each other where some wait for what others do.

Threads run a statement together. A branch sends some of them one way and the others another way,
and as long as nobody waits, one way is run to its end and then the other. At a barrier in shared
memory (``mbarrier``) that is not enough: a producer waits for consumers that come later in the
program, and they wait for it. So closures of statements that contain such barriers do not have to
finish: they return the steps that are left, of which the first cannot be taken yet:

    Blocked     wait until others have arrived at a barrier
    Split       let the threads that take each way of a branch go on independently
    Meeting     wait for the other threads of a block (or warpgroup), to go on as one group

``drive`` takes the steps. A *strand* is a group of threads with the steps that are left to it, as a
stack. The first strand that can go on runs until it is blocked or has no steps left, then again the
first one that can: equal programs always run in the same order.

Threads that have come to the end of a branch wait there for those that went the other way (a
``_Join`` on the stack of each), and go on with them as one group. If no strand can go on otherwise,
they go on without the others, and what stands behind the branch is run by each of them. If that
does not help either, the program waits forever: ``complain`` of the steps tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Blocked", "Left", "Meeting", "Rest", "Split", "Step", "after", "drive"]

Left = Any
"""What a closure leaves: None where it has finished, else a list of steps."""
Step = Callable[[Any], Left]


class Blocked(NamedTuple):
    """A wait that is tried again once ``can_go``; ``complain(others)`` handles that it never can:
    ``others`` is what all other strands wait for."""

    step: Step
    can_go: Callable[[], bool]
    describe: Callable[[], str]
    complain: Callable[[list[Any]], None]


class Split(NamedTuple):
    """The ways that parts of a group take: (some of the threads, their steps)."""

    group: Any
    ways: list[tuple[Any, list[Any]]]


class Meeting(NamedTuple):
    """A step that threads take together: those who get there wait until ``is_whole`` holds for all
    their groups, and go on as the group that ``merge`` makes of them."""

    step: Step
    is_whole: Callable[[list[Any]], bool]
    merge: Callable[[list[Any]], Any]
    describe: Callable[[], str]
    complain: Callable[[list[Any]], None]
    in_branches: bool = False  # threads may get there by different ways of a branch around it


class Rest(NamedTuple):
    """The iterations of a loop that are left; equal ones are the same step."""

    loop: Callable[..., Left]
    place: Any
    end: Any

    def __call__(self, group: Any) -> Left:
        return self.loop(group, self.place, self.end)


class _Join:
    """The end of a branch: all threads of a group are expected there."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.is_open = False  # the others cannot come before those that are there go on


class _Strand:
    """Threads that run together: the steps that are left, the next one last; what it waits for."""

    def __init__(self, group: Any, steps: list[Any]) -> None:
        self.group = group
        self.steps = steps
        self.waits: Any = None

    def can_go(self) -> bool:
        if isinstance(self.waits, _Join):
            return self.waits.is_open
        if isinstance(self.waits, Meeting):
            return False  # the last one who comes takes the others along
        return self.waits is None or bool(self.waits.can_go())


def after(left: Left, step: Step, group: Any) -> Left:
    """Take a step behind a statement that has left steps: at once if it has left none."""
    return step(group) if left is None else [*left, step]


def drive(step: Step, group: Any, size: Callable[[Any], int]) -> bool:
    """Take a step and all that it leaves; return False if the threads wait for each other forever.

    ``size`` tells the number of threads of a group.
    """
    left = step(group)
    return left is None or _Strands(group, left, size).run()


class _Strands:
    def __init__(self, group: Any, left: list[Any], size: Callable[[Any], int]) -> None:
        self.strands = [_Strand(group, left[::-1])]
        self.size = size

    def run(self) -> bool:
        """Run all strands to their ends; return False if they wait forever."""
        while self.strands:
            strand = next((one for one in self.strands if one.can_go()), None)
            if strand is not None:
                self.resume(strand)
            elif not self.open_a_join():
                self.complain()
                return False
        return True

    def resume(self, strand: _Strand) -> None:
        """Run a strand until it waits or has ended."""
        if isinstance(strand.waits, Blocked):
            strand.steps.append(strand.waits.step)
        strand.waits = None
        while strand.steps:
            step = strand.steps.pop()
            if isinstance(step, Split):
                self.split(strand, step)
                return
            if isinstance(step, (Blocked, Meeting, _Join)):
                strand.waits = step
                if isinstance(step, Blocked) or not self.joined(strand, step):
                    return
                strand.waits = None
                continue
            left = step(strand.group)
            if left is not None:
                strand.steps += left[::-1]
        self.strands.remove(strand)

    def split(self, strand: _Strand, split: Split) -> None:
        """Replace a strand by one for each way of a branch."""
        join = _Join(split.group)
        ways = [
            _Strand(group, [*strand.steps, join, *steps[::-1]]) for group, steps in split.ways
        ]  # fmt: skip
        place = self.strands.index(strand)
        self.strands[place : place + 1] = ways

    def joined(self, strand: _Strand, step: Meeting | _Join) -> bool:
        """Return whether a strand may go on behind a join or with the step of a meeting, and let it
        go on with all that have come there."""
        if isinstance(step, Meeting):
            if not step.in_branches and any(isinstance(one, _Join) for one in strand.steps):
                step.complain([])  # a barrier of the block in a branch
                return True
            there = [one for one in self.strands if self._meets(one, strand, step)]
            if not step.is_whole([one.group for one in there]):
                return False
            strand.group = step.merge([one.group for one in there])
            strand.steps.append(step.step)
        else:
            if step.is_open:
                return True
            there = [one for one in self.strands if one.waits is step]
            if sum([self.size(one.group) for one in there]) < self.size(step.group):
                return False
            strand.group = step.group
        self.strands = [one for one in self.strands if one is strand or one not in there]
        return True

    def _meets(self, one: _Strand, strand: _Strand, step: Meeting) -> bool:
        waits = one.waits
        is_there = isinstance(waits, Meeting) and waits.step is step.step
        return is_there and one.steps == strand.steps

    def open_a_join(self) -> bool:
        """Let the threads that wait longest at the end of a branch go on without the others."""
        for strand in self.strands:
            if isinstance(strand.waits, _Join):
                strand.waits.is_open = True
                return True
        return False

    def complain(self) -> None:
        """Tell who waits forever: at barriers in shared memory, else at meetings."""
        waits = [one.waits for one in self.strands]
        blocked = [one for one in waits if isinstance(one, Blocked)]
        for one in blocked or waits[:1]:
            one.complain([other for other in waits if other is not one])
