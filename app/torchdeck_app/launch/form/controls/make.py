"""The control that suits a field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torchdeck.config.keys import Key
from torchdeck_app.launch.form.controls.choice import ChoiceControl, WordControl
from torchdeck_app.launch.form.controls.control import Control
from torchdeck_app.launch.form.controls.line import LineControl
from torchdeck_app.launch.form.controls.lines import LinesControl
from torchdeck_app.launch.form.controls.nodes import NODES, NodesControl
from torchdeck_app.launch.form.controls.pairs import PairsControl
from torchdeck_app.launch.form.controls.path import PathControl
from torchdeck_app.launch.form.controls.switch import SwitchControl
from torchdeck_app.launch.form.kinds import Kind
from torchdeck_app.launch.form.states import FieldState
from torchdeck_app.theme.theme import Theme


def is_wide(kind: Kind, key: Key) -> bool:
    """Whether the control takes the room of the unit too: for text, paths and lists."""
    numeric = bool(key.types) and set(key.types) <= {"int", "float", "bool"} and key.default is not None
    return kind is not Kind.CHOICE and kind is not Kind.SWITCH and not numeric and unit_of(key) == ""


def unit_of(key: Key) -> str:
    """What stands behind the control; a size says its unit itself."""
    return "" if "size" in key.types else key.unit or ""


def make_control(
    theme: Theme,
    kind: Kind,
    state: FieldState,
    folder: Callable[[], Path],
    node_names: Callable[[], Sequence[str]] = tuple,
) -> Control:
    """A control of `kind`; tables are made by who knows how rows are made."""
    if state.key.path == NODES:
        return NodesControl(theme, state, node_names)
    if kind is Kind.PATH:
        return PathControl(theme, state, folder)
    if kind is Kind.LINES:
        return LinesControl(theme, state)
    if kind is Kind.PAIRS:
        return PairsControl(theme, state)
    plain = {Kind.SWITCH: SwitchControl, Kind.CHOICE: ChoiceControl, Kind.WORD_OR_LINE: WordControl}
    return plain.get(kind, LineControl)(state)
