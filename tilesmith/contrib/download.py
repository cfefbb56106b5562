"""Fetches files."""

from __future__ import annotations

import logging
import os
import shutil
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

from tilesmith.support.errors import ConfigError, FileError
from tilesmith.support.files import make_atomically

__all__ = ["LOG", "TEST_DATA_ROOT_PATH", "download", "download_testdata"]

LOG = logging.getLogger("download")
TEST_DATA_ROOT_PATH = Path.home() / ".tilesmith_test_data"
"""The folder of `download_testdata`."""

_SECONDS_BETWEEN_TRIES = 0.5
_TIMEOUT_SECONDS = 60


def download(
    url: str,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    size_compare: bool = False,
    retries: int = 3,
) -> None:
    """Fetch a file; one that exists stays, unless ``overwrite`` is set, or ``size_compare`` and its
    size is another one than the server's.

    Raises FileError where it cannot be fetched, after ``retries`` tries.
    """
    target = Path(path)
    if target.is_file() and not overwrite:
        if not size_compare or _size(url) in (None, target.stat().st_size):
            LOG.debug("%s exists", target)
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, retries + 1):
        try:
            with _opened(url) as source:
                make_atomically(target, partial(_store, source))
            return
        except (urllib.error.URLError, TimeoutError) as error:
            reason = getattr(error, "reason", error)
            if attempt == retries or isinstance(error, urllib.error.HTTPError):
                raise FileError(
                    f"'{url}' cannot be fetched: {reason}",
                    notes=(f"put the file there yourself: {target}",),
                ) from None
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _opened(request: str | urllib.request.Request) -> Any:
    try:
        return urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except ValueError as error:
        raise ConfigError(f"not an address: {error}") from None


def _store(source: Any, temporary: str) -> None:
    with open(temporary, "wb") as file:
        shutil.copyfileobj(source, file)


def _size(url: str) -> int | None:
    """Return the size that the server tells, None where it tells none."""
    try:
        with _opened(urllib.request.Request(url, method="HEAD")) as answer:
            told = answer.headers.get("Content-Length")
    except (urllib.error.URLError, TimeoutError) as error:
        LOG.warning("the size of %s is not known: %s", url, error)
        return None
    return None if told is None else int(told)


def download_testdata(
    url: str, relpath: str, module: str | list[str] | None = None, overwrite: bool = False
) -> str:
    """Fetch a file into a folder for test data, below ``module``; return its path."""
    parts = [] if module is None else [module] if isinstance(module, str) else module
    target = TEST_DATA_ROOT_PATH.joinpath(*parts, relpath)
    download(url, target, overwrite)
    return str(target)
