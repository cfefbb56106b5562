"""Calls functions in a process of its own: the worker of `popen_pool`."""

from __future__ import annotations

import pickle
from typing import Any

from tilesmith.support.workers import Reply, serve


def call(request: Any, blobs: list[bytes]) -> Reply:
    """Call a pickled function; return what it gives, or the exception it raises, as a pickle."""
    try:
        function, arguments, options = pickle.loads(blobs[0])
        made: tuple[bool, Any] = (True, function(*arguments, **options))
        return "returned", [_dump(made)]
    except Exception as error:  # whatever the function raises goes to whoever called it
        try:
            return "raised", [_dump((False, error))]
        except Exception:  # an exception that cannot be pickled: its text can
            text = f"{type(error).__name__}: {error}"
            return "raised", [pickle.dumps((False, RuntimeError(text)))]


def _dump(value: Any) -> bytes:
    content = pickle.dumps(value)
    pickle.loads(content)  # some exceptions are written, but cannot be read again
    return content


if __name__ == "__main__":
    serve(call)
