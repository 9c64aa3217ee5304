"""The parameters tab: the tree, its search, and what a rank holds, as a person sees and uses them."""

import dataclasses

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from support.values.previews import preview, profile
from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.known import Known
from torchdeck.plan.preview import Preview
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.parameter_model import BAR, Column, ParameterModel
from torchdeck_app.launch.preview.parameter_tree import ParameterTree
from torchdeck_app.launch.preview.parameters_tab import ParametersView, column_widths
from torchdeck_app.theme.theme import Theme

LAYERS = 4


def tensors(layers: int) -> tuple[TensorInfo, ...]:
    """`embedding.weight`, and a weight and a bias a layer."""
    made = [TensorInfo("embedding.weight", (100, 8), "float32", trainable=True, unit=0)]
    for layer in range(layers):
        weight, bias = f"layers.{layer}.linear.weight", f"layers.{layer}.linear.bias"
        made.append(TensorInfo(weight, (6, 8), "float32", trainable=True, unit=0))
        made.append(TensorInfo(bias, (6,), "float32", trainable=True, unit=0))
    return tuple(made)


def of(strategy: str = "fsdp", layers: int = LAYERS) -> Preview:
    known = Known(dataclasses.replace(profile(), parameters=tensors(layers)))
    return preview(2, 2, known=known, training={"steps": 3}, distributed={"strategy": strategy})


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, operations: Operations) -> ParametersView:
    made = ParametersView(theme, operations)
    made.resize(900, 600)
    qtbot.addWidget(made)
    made.show()
    return made


def shown(qtbot: QtBot, view: ParametersView, made: Preview) -> None:
    view.show_preview(made)
    qtbot.waitUntil(lambda: view.model.rowCount() > 0)


def cells(view: ParametersView, *path: str) -> list[str]:
    """The texts of the row that `path` leads to."""
    model, index = view.model, view.model.index_of(0)
    for name in path:
        rows = [model.index(row, 0, index) for row in range(model.rowCount(index))]
        index = next(row for row in rows if row.data() == name)
    return [str(index.siblingAtColumn(column).data()) for column in Column]


def visible_text(view: ParametersView) -> str:
    return "\n".join(label.text() for label in view.findChildren(QLabel) if label.isVisible())


def test_modules_and_tensors_have_their_numbers(qtbot: QtBot, view: ParametersView) -> None:
    shown(qtbot, view, of())
    assert cells(view, "embedding.weight") == [
        "embedding.weight", "100 × 8", "float32", "3.1 KiB", "0–24 of 100", "800 B", "79 %",
    ]  # fmt: skip
    assert cells(view, "layers")[:4] == ["layers", "8 tensors", "", "864 B"]
    assert view.count.number.text() == "1,016"


def test_another_rank_holds_other_rows(qtbot: QtBot, view: ParametersView) -> None:
    shown(qtbot, view, of())
    view.rank.setValue(3)
    assert cells(view, "embedding.weight")[Column.ROWS] == "75–99 of 100"
    # torch.chunk cuts 6 rows for 4 ranks into 2, 2, 2 and none
    assert cells(view, "layers", "0.linear", "bias")[Column.ROWS] == "none of 6"
    assert view.held.caption.text() == "held by rank 3"
    embedding = view.model.index(0, 0)
    assert embedding.siblingAtColumn(Column.ROWS).data(BAR) == (0.75, 1.0)


def test_without_sharding_each_rank_holds_all(qtbot: QtBot, view: ParametersView) -> None:
    shown(qtbot, view, of("ddp"))
    assert cells(view, "embedding.weight")[Column.ROWS] == "all 100"
    assert cells(view, "layers")[Column.ROWS] == "100 %"


def test_zero_is_not_by_rows(qtbot: QtBot, view: ParametersView) -> None:
    made = of()
    assert made.spec is not None
    shown(qtbot, view, dataclasses.replace(made, spec=made.spec.with_kind("zero3")))
    qtbot.waitUntil(lambda: "without regard to rows" in visible_text(view))
    assert cells(view, "embedding.weight")[Column.ROWS] == "not by rows"


def test_a_search_leaves_what_it_finds_with_its_modules(qtbot: QtBot, view: ParametersView) -> None:
    shown(qtbot, view, of())
    qtbot.keyClicks(view.search, "1 BIAS")
    qtbot.waitUntil(lambda: view.said.text() == "1 tensor found.")
    assert view.model.rowCount() == 1
    assert cells(view, "layers", "1.linear", "bias")[Column.NAME] == "bias"
    assert cells(view, "layers")[Column.SHAPE] == "8 tensors"
    view.search.setText("nothing like it")
    qtbot.waitUntil(lambda: view.said.text() == "No matching names.")
    assert view.model.rowCount() == 0
    view.search.clear()
    qtbot.waitUntil(lambda: view.model.rowCount() == 2)


def test_the_model_keeps_qts_rules(qtbot: QtBot, view: ParametersView) -> None:
    tester = QAbstractItemModelTester(view.model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    shown(qtbot, view, of())
    view.search.setText("bias")
    qtbot.waitUntil(lambda: "4 tensors found" in view.said.text())
    view.rank.setValue(2)
    view.search.setText("nothing like it")
    qtbot.waitUntil(lambda: view.model.rowCount() == 0)
    assert not view.model.hasChildren()
    view.search.clear()
    qtbot.waitUntil(lambda: view.model.rowCount() == 2)
    assert tester.model() is view.model


def test_an_edit_keeps_what_is_open(qtbot: QtBot, view: ParametersView) -> None:
    """The same parameters in a new preview: the tree stays as it is, and rows follow the strategy."""
    shown(qtbot, view, of())
    view.tree.expand(view.model.index(1, 0))
    view.show_preview(of("ddp"))
    qtbot.waitUntil(lambda: cells(view, "layers")[Column.ROWS] == "100 %")
    assert view.tree.isExpanded(view.model.index(1, 0))
    view.show_preview(of(layers=2))
    qtbot.waitUntil(lambda: cells(view, "layers")[Column.SHAPE] == "4 tensors")


def test_what_is_selected_is_copied(qtbot: QtBot, view: ParametersView) -> None:
    shown(qtbot, view, of())
    view.tree.setCurrentIndex(view.model.index(0, 0))
    view.tree.setFocus()
    qtbot.keyClick(view.tree, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: view.said.text() == "1 tensor copied.")
    assert QGuiApplication.clipboard().text().splitlines()[1].startswith("embedding.weight\t100×8\tfloat32")
    view.tree.clearSelection()
    qtbot.mouseClick(view.copy, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: view.said.text() == "9 tensors copied.")


def test_a_hundred_thousand_tensors(
    qtbot: QtBot, view: ParametersView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Laid out by a worker; the GUI thread asks for the rows that are visible, and for no others."""
    made = of()
    assert made.known.profile is not None
    large = dataclasses.replace(made.known.profile, parameters=tensors(50_000))
    view.show_preview(dataclasses.replace(made, known=dataclasses.replace(made.known, profile=large)))
    qtbot.waitUntil(lambda: view.model.rowCount() == 2, timeout=60_000)
    asked, text = set[int](), ParameterModel._text

    def counted(model: ParameterModel, tree: ParameterTree, node: int, column: int) -> str:
        asked.add(node)
        return text(model, tree, node, column)

    monkeypatch.setattr(ParameterModel, "_text", counted)
    view.tree.expand(view.model.index(1, 0))
    view.tree.scrollToBottom()
    view.grab()
    view.rank.setValue(2)
    view.grab()
    assert view.model.rowCount(view.model.index(1, 0)) == 50_000
    assert 0 < len(asked) < 1000


@pytest.mark.parametrize("room", [0, 600, 604, 700, 850, 1600])
def test_columns_share_the_room(room: int) -> None:
    widths = column_widths(room)
    assert set(widths) == set(Column)
    assert sum(widths.values()) == max(room, 604)
    assert all(widths[column] <= column_widths(2000)[column] for column in Column)


def test_a_column_that_was_drawn_keeps_its_width(qtbot: QtBot, view: ParametersView) -> None:
    shown(qtbot, view, of())
    view.tree.setColumnWidth(Column.TYPE, 61)
    view.resize(760, 600)
    qtbot.waitUntil(lambda: view.tree.width() < 760)
    assert view.tree.columnWidth(Column.TYPE) == 61
    assert sum(view.tree.columnWidth(column) for column in Column) <= view.tree.viewport().width()


def test_names_are_no_markup(qtbot: QtBot, view: ParametersView) -> None:
    """What a model calls its tensors is shown letter by letter."""
    known = Known(
        dataclasses.replace(
            profile(), parameters=(TensorInfo("<b>w</b>", (2,), "float32", trainable=True, unit=0),)
        )
    )
    shown(qtbot, view, preview(1, 2, known=known, training={"steps": 3}))
    index = view.model.index(0, 0)
    assert index.data() == "<b>w</b>"
    assert index.data(Qt.ItemDataRole.ToolTipRole) == "<qt>&lt;b&gt;w&lt;/b&gt;</qt>"


def test_why_nothing_is_shown(qtbot: QtBot, view: ParametersView) -> None:
    view.show_preview(None)
    assert "There is no preview yet." in visible_text(view)
    unknown = preview(1, 2, known=Known(failure="memory is not predicted: no trust"), training={"steps": 3})
    view.show_preview(unknown)
    assert "Memory is not predicted: no trust." in visible_text(view)
    view.show_preview(dataclasses.replace(unknown, plan=dataclasses.replace(unknown.plan, batch=None)))
    assert "A script builds its own model" in visible_text(view)
