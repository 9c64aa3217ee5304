"""Scripts that use the library by itself, shipped as resources: something to start one's own from."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


class UnknownExampleError(ValueError):
    """There is no example of that name."""


def example_names() -> list[str]:
    """Names of all examples, as their files are called without `.py`."""
    return sorted(
        entry.name.removesuffix(".py") for entry in _folder().iterdir() if entry.name.endswith(".py")
    )


def example_text(name: str) -> str:
    """The script of example `name`.

    Raises:
        UnknownExampleError: there is none of that name.
    """
    if name not in example_names():
        raise UnknownExampleError(f"there is no example {name!r}; examples are {', '.join(example_names())}")
    return (_folder() / f"{name}.py").read_text(encoding="utf-8")


def example_summary(name: str) -> str:
    """What the example shows, in one sentence: the first line of its docstring.

    Raises:
        UnknownExampleError: there is none of that name.
    """
    return example_text(name).partition("\n")[0].strip('"')


def _folder() -> Traversable:
    return files("torchdeck_resources") / "examples"
