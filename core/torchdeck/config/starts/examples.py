"""Bundled scripts that use the library by itself, as templates for the user's own."""

from __future__ import annotations

from torchdeck.config.starts.bundled_texts import BundleTexts
from torchdeck.contract.refusal import Refusal


class UnknownExampleError(Refusal, ValueError):
    """There is no example of that name."""


_EXAMPLES = BundleTexts("example", "examples", ".py", UnknownExampleError)


def example_names() -> list[str]:
    """Return the names of all examples: their file names without `.py`."""
    return _EXAMPLES.names()


def example_text(name: str) -> str:
    """Return the script of example `name`.

    Raises:
        UnknownExampleError: there is none of that name.
    """
    return _EXAMPLES.text(name)


def example_summary(name: str) -> str:
    """Return what the example shows, in one sentence: the first line of its docstring.

    Raises:
        UnknownExampleError: there is none of that name.
    """
    return _EXAMPLES.first_line(name).strip('"')
