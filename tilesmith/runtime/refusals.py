"""What an executable refuses: operations for which it lacks code, or another form of its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.runtime.formats import Format, source_only
from tilesmith.support.errors import UnsupportedError

__all__ = ["nothing_to_compare", "only_on_hosts", "without_code"]


def only_on_hosts(kind: str, what: str, advice: str) -> Callable[..., Any]:
    """Return a function that refuses what only code of the host can do."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise UnsupportedError(
            f"this model runs on devices of type '{kind}', it cannot be {what}", notes=(advice,)
        )

    return refuse


def without_code(what: str, sources: Mapping[str, Format], advice: str) -> UnsupportedError:
    """Return the error for operations that need object code."""
    return UnsupportedError(
        f"this executable cannot be {what}: it has no object code",
        notes=(source_only(list(sources), advice),),
    )


def nothing_to_compare(inputs: Any) -> Any:
    """Refuse the comparison with float32 of a model that has no other form than its own."""
    raise UnsupportedError(
        "there is no float32 form of this model to compare with",
        notes=(
            "accuracy_report is for what tilesmith.compile(…, precision=…) has returned, before it "
            "is saved and where the target has that precision",
        ),
    )
