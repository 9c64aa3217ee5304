"""Bundled template texts, each identified by its file's name without its suffix."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable


@dataclass(frozen=True)
class BundleTexts:
    """Files of one folder of `torchdeck_resources` with the same suffix."""

    kind: str
    """Kind of the items, for people."""
    folder: str
    ending: str
    unknown: type[ValueError]
    """Raised for an unknown name."""
    default: str = ""
    """Name that comes first."""

    def names(self) -> list[str]:
        """Return all names, the default one first."""
        found = (entry.name for entry in self._place().iterdir())
        names = (name.removesuffix(self.ending) for name in found if name.endswith(self.ending))
        return sorted(names, key=lambda name: (name != self.default, name))

    def text(self, name: str) -> str:
        """Return the content of the file of `name`. Raises `unknown` if there is none."""
        if name not in self.names():
            known = ", ".join(self.names())
            raise self.unknown(f"there is no {self.kind} {name!r}; {self.kind}s are {known}")
        return self.beside(f"{name}{self.ending}")

    def first_line(self, name: str) -> str:
        """Return its own first line. Raises `unknown` if there is none."""
        return self.text(name).partition("\n")[0]

    def beside(self, file: str) -> str:
        """Return the content of `file` in the folder, whatever its extension."""
        return (self._place() / file).read_text(encoding="utf-8")

    def _place(self) -> Traversable:
        return files("torchdeck_resources") / self.folder
