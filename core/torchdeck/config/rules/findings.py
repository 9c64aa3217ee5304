"""Input and findings of a config rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torchdeck.config.schema import RunConfig
from torchdeck.config.toml.document import KeyPath


@dataclass(frozen=True)
class Given:
    """Input of a rule."""

    config: RunConfig
    written: Callable[[KeyPath], bool]
    """Returns whether a key is set anywhere, rather than its default."""


@dataclass(frozen=True)
class Finding:
    """A contradiction, at `path`; `uses` are the other keys involved."""

    path: KeyPath
    wrong: str
    right: str
    uses: tuple[KeyPath, ...] = ()


Rule = Callable[[Given], Iterator[Finding]]
