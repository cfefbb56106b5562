"""Keeps the results of functions, in memory and (where asked for) in a file.

Files hold arrays and plain data (`.npz` with JSON inside), never Python's pickles: a pickle can run
any code when it is read.
"""

from __future__ import annotations

import atexit
import functools
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilesmith.support.errors import ArtifactError, TypeMismatchError
from tilesmith.support.files import write_atomically

__all__ = ["Cache", "GLOBAL_CACHE_DIR", "memoize"]

GLOBAL_CACHE_DIR = str(Path.home() / ".tilesmith_memoized")
"""The folder of the files; change it before the first use."""

_TREE = "__tree__"


class Cache:
    """The results of one function by its arguments; ``save_at_exit`` writes them to a file when
    the program ends.
    """

    _known: dict[str, Cache] = {}

    def __init__(self, key: str, save_at_exit: bool) -> None:
        self.path = Path(GLOBAL_CACHE_DIR, f"{_file_name(key)}.npz")
        self.save_at_exit = save_at_exit
        self._loaded: dict[str, Any] | None = None

    @property
    def cache(self) -> dict[str, Any]:
        """The results, by a text of the arguments."""
        if self._loaded is None:
            self._loaded = _read(self.path) if self.path.is_file() else {}
        return self._loaded

    def save(self) -> None:
        """Write the results to the file, if that was asked for."""
        if self.save_at_exit and self._loaded:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, _bytes_of(self._loaded))


def _save_all() -> None:
    for cache in Cache._known.values():
        cache.save()


atexit.register(_save_all)


def memoize(key: str, save_at_exit: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that keeps the results of a function; ``key`` names them.

    Arguments are numbers, texts, and tuples or lists of these. With ``save_at_exit``, results are
    arrays, numbers, texts, None, and tuples, lists or dictionaries of these; TypeMismatchError
    otherwise.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        cache = Cache._known.setdefault(key, Cache(key, save_at_exit))
        cache.save_at_exit = save_at_exit

        @functools.wraps(function)
        def remembered(*arguments: Any, **named: Any) -> Any:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            words = [*arguments, sorted(named.items()), *cells]
            text = json.dumps([_tree(word, None) for word in words])
            if text not in cache.cache:
                made = function(*arguments, **named)
                if save_at_exit:
                    _tree(made, [])  # what cannot be written is refused here, not at the end
                cache.cache[text] = made
            return cache.cache[text]

        return remembered

    return decorate


def _file_name(key: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in key)


def _tree(value: Any, arrays: list[Any] | None) -> Any:
    """Return a value as JSON data; arrays are put into the list, which is None for arguments."""
    import numpy

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_tree(part, arrays) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[_tree(part, arrays) for part in item] for item in value.items()]}
    if arrays is not None and isinstance(value, numpy.ndarray | numpy.generic):
        if value.dtype.hasobject:
            raise TypeMismatchError("memoize: an array of Python objects cannot be stored")
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if arrays is None and isinstance(value, numpy.ndarray | numpy.generic):
        return {"given": [str(value.dtype), list(value.shape), value.tobytes().hex()]}
    if arrays is None and hasattr(value, "__qualname__"):  # a function or class in a closure
        return {"named": f"{value.__module__}.{value.__qualname__}"}
    raise TypeMismatchError(
        f"memoize: {type(value).__name__} cannot be "
        + ("compared as an argument" if arrays is None else "stored in a file"),
        notes=("it serves arrays, numbers, texts, and tuples, lists and dictionaries of these",),
    )


def _value(tree: Any, arrays: list[Any]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {_value(key, arrays): _value(part, arrays) for key, part in content}
    parts = [_value(part, arrays) for part in content]
    return tuple(parts) if kind == "tuple" else parts


def _bytes_of(results: dict[str, Any]) -> bytes:
    import numpy

    arrays: list[Any] = []
    text = json.dumps(_tree(results, arrays))
    file = io.BytesIO()
    named = {f"array{number}": one for number, one in enumerate(arrays)}
    numpy.savez(file, allow_pickle=False, **{_TREE: numpy.array(text)}, **named)
    return file.getvalue()


def _read(path: Path) -> dict[str, Any]:
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as stored:
            count = len(stored.files) - 1
            arrays = [stored[f"array{number}"] for number in range(count)]
            found: dict[str, Any] = _value(json.loads(str(stored[_TREE])), arrays)
    except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise ArtifactError(
            f"'{path}' does not hold results of memoize", notes=(str(error), "remove the file")
        ) from error
    return found
