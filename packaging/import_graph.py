"""Draws which rooms of a source tree import which: `import_graph.py TREE PICTURE.svg`.

A room is a package below torchdeck, or the window (torchdeck_app). Rooms stand above those that they import.
An arrow that has to go upwards, because two rooms need each other, is red. Numbers in boxes are modules.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import grimp

Imports = Mapping[tuple[str, str], int]
WIDTH, BOX, HEIGHT, ROW = 1000, 104, 40, 108
STYLE = """text{font:13px sans-serif;fill:#222;text-anchor:middle}.n{font-size:11px;fill:#666}
rect{fill:#f4f6f8;stroke:#7a8794}path{fill:none;stroke:#7a8794;stroke-opacity:.55}
.up{stroke:#c62828;stroke-opacity:.9;stroke-width:1.6}
#a path{fill:#7a8794;stroke:none}#b path{fill:#c62828;stroke:none}
@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.n{fill:#a0a8b0}rect{fill:#262b31}.up{stroke:#ff7b72}
#b path{fill:#ff7b72}}"""


def read(tree: Path) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Return the number of modules per room, and of imports per pair of rooms."""
    sys.path[:0] = [str(tree / "core"), str(tree / "app")]
    graph = grimp.build_graph("torchdeck", "torchdeck_app", cache_dir=None)
    rooms = Counter(room(name) for name in graph.modules)
    pairs = Counter(
        (room(importer), room(name))
        for importer in graph.modules
        for name in graph.find_modules_directly_imported_by(importer)
    )
    return rooms, Counter({pair: count for pair, count in pairs.items() if pair[0] != pair[1]})


def room(module: str) -> str:
    """Return the room of a module."""
    first, *below = module.split(".")
    return "window" if first == "torchdeck_app" else below[0] if below else first


def order(rooms: set[str], imports: Imports) -> list[str]:
    """Return the rooms, importers first, with few imports against the order (Eades, Lin, Smyth 1993)."""
    left, front, back = set(rooms), list[str](), list[str]()
    while left:
        out = {name: sum(n for (a, b), n in imports.items() if a == name and b in left) for name in left}
        into = {name: sum(n for (a, b), n in imports.items() if b == name and a in left) for name in left}
        last = next((name for name in sorted(left) if not out[name]), "")
        chosen = last or max(sorted(left), key=lambda name: (not into[name], out[name] - into[name]))
        left.remove(chosen)
        back, front = ([chosen, *back], front) if last else (back, [*front, chosen])
    return front + back


def places(names: list[str], imports: Imports) -> dict[str, tuple[float, float]]:
    """Return the middle of each room's box: in the row below the lowest room that imports it."""
    rows: dict[str, int] = {}
    for at, name in enumerate(names):
        rows[name] = max((rows[above] + 1 for above in names[:at] if (above, name) in imports), default=0)
    found: dict[str, tuple[float, float]] = {}
    for row in range(max(rows.values()) + 1):
        here = [name for name in names if rows[name] == row]
        for at, name in enumerate(here):
            shift = (row % 3 - 1) * 90 if len(here) == 1 else 0  # else arrows pass behind the boxes between
            found[name] = ((at + 0.5) * WIDTH / len(here) + shift, row * ROW + HEIGHT)
    return found


def picture(rooms: Mapping[str, int], imports: Imports) -> str:
    """Return the drawing."""
    at = places(order(set(rooms), imports), imports)
    size = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    heads = "".join(f'<marker id="{name}" {size}><path d="M0 0L8 4L0 8z"/></marker>' for name in "ab")
    height = max(y for _, y in at.values()) + HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}">']
    parts.append(f"<style>{STYLE}</style><defs>{heads}</defs>")
    for (source, target), count in sorted(imports.items()):
        (x, y), (u, v) = at[source], at[target]
        is_up = v <= y
        y, v = (y - HEIGHT / 2, v + HEIGHT / 2) if is_up else (y + HEIGHT / 2, v - HEIGHT / 2)
        bend = 45 if not is_up else -45
        end = 'class="up" marker-end="url(#b)"' if is_up else 'marker-end="url(#a)"'
        line = f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {u:.0f} {v - bend:.0f} {u:.0f} {v:.0f}"
        parts.append(f'<path {end} d="{line}"><title>{source} → {target}: {count}</title></path>')
    for name, (x, y) in at.items():
        corner = f'x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}"'
        parts.append(f'<rect {corner} width="{BOX}" height="{HEIGHT}" rx="5"/>')
        parts.append(f'<text x="{x:.0f}" y="{y - 2:.0f}">{name}</text>')
        parts.append(f'<text class="n" x="{x:.0f}" y="{y + 13:.0f}">{rooms[name]}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(*read(Path(sys.argv[1]))), encoding="utf-8")
