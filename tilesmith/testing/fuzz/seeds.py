"""Hands out the seeds of a run of a fuzzer to its threads, and counts what they find."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

__all__ = ["Findings", "Runner", "Seeds", "Stopped"]


@dataclass
class Findings:
    """What a run found: the first finding of each signature, and how often it came again."""

    findings: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    again: Counter[str] = dataclasses.field(default_factory=Counter)
    seconds: float = 0.0

    def is_new(self, signature: str, finding: dict[str, Any]) -> bool:
        """Count a finding; return True, and keep it, if none with its signature was kept."""
        if signature in self.findings:
            self.again[signature] += 1
            return False
        self.findings[signature] = finding
        return True


class Stopped(Exception):
    """A runner was stopped: what it was asked last has no answer."""


class Runner(Protocol):
    """A process in which programs are run."""

    def stop(self) -> None:
        """End the process at once, from another thread; requests then raise Stopped."""

    def close(self) -> None:
        """End the process."""


AnyRunner = TypeVar("AnyRunner", bound=Runner)


class Seeds:
    """The seeds from ``first`` on, until ``seconds`` are over, ``most`` are taken, or a thread
    fails (None: no such limit).
    """

    def __init__(self, first: int, seconds: float | None, most: int | None) -> None:
        self.first = first
        self.seconds = seconds
        self.most = most
        self.start = time.monotonic()
        self._next = first
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self._over = False

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """The lock under which threads change what they share."""
        return self._lock

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.start

    def end(self) -> None:
        """Hand out no more seeds."""
        self._over = True

    def take(self) -> int | None:
        """Return the next seed, or None at the end of the run."""
        with self._lock:
            late = self.seconds is not None and self.elapsed >= self.seconds
            enough = self.most is not None and self._next - self.first >= self.most
            if late or enough or self._over or self._errors:
                return None
            self._next += 1
            return self._next - 1

    def work(
        self,
        count: int,
        runner: Callable[[], AnyRunner],
        one: Callable[[AnyRunner, int], None],
    ) -> None:
        """Call ``one(runner, seed)`` for all seeds in ``count`` threads, each with a runner of its
        own. The first error of a thread ends the run and is raised. So does what a signal raises
        here, such as KeyboardInterrupt: all runners are stopped, and ``one`` may finish without
        them.
        """
        runners: list[AnyRunner] = []

        def loop(done: threading.Event) -> None:
            mine: AnyRunner | None = None
            try:
                with self._lock:
                    if self._over:
                        return
                    mine = runner()
                    runners.append(mine)
                while (seed := self.take()) is not None:
                    one(mine, seed)
            except Stopped:
                self._over = True
            except BaseException as error:  # raised below, in the thread of the caller
                self._errors.append(error)
            finally:
                if mine is not None:
                    mine.close()
                done.set()

        # Waited for by events: a join that is interrupted lets later ones return at once (3.11).
        ends = [threading.Event() for _ in range(max(1, count))]
        threads = [threading.Thread(target=loop, args=(end,)) for end in ends]
        try:
            for thread in threads:
                thread.start()
            for end in ends:
                end.wait()
        except BaseException:
            with self._lock:
                self._over = True
            for each in runners:
                each.stop()
            for thread, end in zip(threads, ends):
                if thread.ident is not None:
                    end.wait()
            raise
        if self._errors:
            raise self._errors[0]
