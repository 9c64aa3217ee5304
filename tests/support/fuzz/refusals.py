"""Reading what may be refused."""

from __future__ import annotations

from collections.abc import Callable


def refused(read: Callable[[], object], *errors: type[Exception]) -> None:
    """Call `read`, which may raise one of `errors`; then there is a message that can be shown."""
    said = "it was read"
    try:
        read()
    except errors as error:
        said = str(error)
    assert said
