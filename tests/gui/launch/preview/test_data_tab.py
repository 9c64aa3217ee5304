"""The data tab: cells, bars, balances and arithmetic, as a person sees and uses them."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QWheelEvent
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from support.values.previews import preview, profile
from torchdeck.config.schema import RunConfig
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.plan.known import Known
from torchdeck.plan.preview import Preview
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.data_tab import DataView
from torchdeck_app.theme.theme import Theme

LENGTHS = np.random.default_rng(5).integers(1, 257, 2000)


def planned(gpus: int = 4, **training: object) -> Preview:
    plan = build_batch_plan(LENGTHS, token_budget=1024, epochs=2)
    return preview(1, gpus, batch_plan=plan, training={"epochs": 2, "batch_plan": "/bp", **training})


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, operations: Operations) -> DataView:
    made = DataView(theme, operations)
    made.resize(800, 900)
    qtbot.addWidget(made)
    made.show()
    return made


def shown(qtbot: QtBot, view: DataView, made: Preview) -> None:
    """Show it, and wait for its cells and for the height they want, which is laid out in a later turn."""
    view.show_preview(made)
    cells = view.heat_map
    qtbot.waitUntil(lambda: cells.marks() > 0 and cells.height() == cells.sizeHint().height())


def test_a_cell_says_what_it_is_to_pointer_and_keyboard(qtbot: QtBot, view: DataView) -> None:
    shown(qtbot, view, preview(1, 2, training={"epochs": 2, "microbatch": 8, "accumulation": 2}))
    view.heat_map.setFocus(Qt.FocusReason.TabFocusReason)
    view.heat_map.point_at(0)
    assert view.readout.text() == "step 0, microbatch 0, rank 0: 1,024 tokens in 8 samples"
    qtbot.keyClick(view.heat_map, Qt.Key.Key_Right)
    qtbot.keyClick(view.heat_map, Qt.Key.Key_Down)
    assert view.readout.text().startswith("step 0, microbatch 1, rank 1:")
    qtbot.keyClick(view.heat_map, Qt.Key.Key_PageDown)
    assert view.heat_map.accessibleDescription().startswith("step 1, microbatch 1, rank 1:")
    qtbot.keyClick(view.heat_map, Qt.Key.Key_Up)
    qtbot.keyClick(view.heat_map, Qt.Key.Key_Home)
    assert view.heat_map.mark == 0
    qtbot.mouseMove(view.heat_map, QPoint(view.heat_map.width() // 2, 8))
    qtbot.waitUntil(lambda: view.heat_map.mark != 0)
    assert "rank 0" in view.readout.text()


def test_other_steps_are_chosen(qtbot: QtBot, view: DataView) -> None:
    shown(qtbot, view, preview(1, 2, training={"steps": 500}))
    view.heat_map.point_at(0)
    view.choice.field.setValue(400)
    qtbot.waitUntil(lambda: view.readout.text().startswith("step 400"))
    qtbot.mouseClick(view.choice.before, Qt.MouseButton.LeftButton)
    assert view.choice.step < 400
    qtbot.waitUntil(lambda: view.readout.text().startswith(f"step {view.choice.step}"))
    view.choice.field.setValue(499)
    assert not view.choice.after.isEnabled()


def test_the_wheel_scrolls_past_the_step(qtbot: QtBot, view: DataView) -> None:
    shown(qtbot, view, preview(1, 2, training={"steps": 500}))
    field = view.choice.field
    place = QPointF(field.rect().center())

    def turn() -> None:
        turned = QWheelEvent(
            place, field.mapToGlobal(place), QPoint(), QPoint(0, 120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(field, turned)

    view.heat_map.setFocus()
    turn()
    assert view.choice.step == 0
    field.setFocus()
    turn()
    assert view.choice.step == 1


def test_fewer_steps_than_were_chosen(qtbot: QtBot, view: DataView) -> None:
    """An edit that makes the run shorter leaves the last step in sight."""
    shown(qtbot, view, preview(1, 2, training={"steps": 500}))
    view.choice.field.setValue(450)
    shown(qtbot, view, preview(1, 2, training={"steps": 20}))
    view.heat_map.point_at(0)
    qtbot.waitUntil(lambda: view.readout.text().startswith("step 19"))


def test_a_balance_is_taken_with_a_click(qtbot: QtBot, view: DataView) -> None:
    shown(qtbot, view, planned())
    assert sorted(view.policies.buttons) == ["attention", "tokens"]
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.mouseClick(view.policies.buttons["tokens"], Qt.MouseButton.LeftButton)
    assert asked.args == [{"training.balance": "tokens"}]
    shown(qtbot, view, planned(balance="tokens"))
    assert sorted(view.policies.buttons) == ["attention", "none"]


def test_numbers_and_arithmetic_are_spelled_out(qtbot: QtBot, view: DataView) -> None:
    made = planned()
    shown(qtbot, view, made)
    assert made.data is not None
    assert view.imbalance.number.text() == f"{made.data.imbalance:.3f}"
    assert view.padding.number.text().endswith(" %")
    assert view.samples.number.text() == "2,000"
    texts = [label.text() for label in view.findChildren(QLabel)]
    assert any("mean microbatch of the batch plan" in text for text in texts)


def test_bars_say_how_far_ranks_are_from_the_mean(qtbot: QtBot, view: DataView) -> None:
    shown(qtbot, view, preview(1, 2, known=Known(profile(samples=9, tokens=None)), training={"epochs": 1}))
    view.bars.point_at(1)
    assert view.bars_readout.text() == "rank 1: 5 samples, +11.1 % from the mean"


def test_a_thousand_ranks_are_groups(qtbot: QtBot, view: DataView) -> None:
    shown(qtbot, view, preview(128, 8, known=Known(profile(samples=2000)), training={"epochs": 4}))
    view.heat_map.point_at(0)
    assert view.readout.text().startswith("step 0, ranks 0–31: at most 256 tokens")
    view.bars.point_at(0)
    assert view.bars_readout.text().startswith("ranks 0–")


def test_cells_are_painted_by_their_value(qtbot: QtBot, view: DataView) -> None:
    """The emptiest and the fullest microbatch have the ends of the scale; a rank without work has neither."""
    plan = build_batch_plan(np.array([10, 200, 10, 200, 10]), token_budget=200, epochs=1)
    shown(qtbot, view, preview(1, 8, batch_plan=plan, training={"epochs": 1, "batch_plan": "/bp"}))
    image = view.heat_map.grab().toImage()
    seen = {
        image.pixelColor(x, y).name() for x in range(0, image.width(), 2) for y in range(0, image.height(), 2)
    }
    assert {"#440154", "#fde725", QColor(view._theme.palette.line).name()} <= seen


def test_why_nothing_is_shown(qtbot: QtBot, view: DataView, config_of_script: Preview) -> None:
    view.show_preview(None, "Two problems keep the plan from being made.")
    assert "Two problems" in visible_text(view)
    view.show_preview(preview(1, 2, known=Known(failure="the recipe is not trusted"), training={"steps": 3}))
    assert "The recipe is not trusted." in visible_text(view)
    view.show_preview(config_of_script)
    assert "A script reads its own data" in visible_text(view)
    shown(qtbot, view, preview(1, 2, training={"steps": 3}))
    assert "From" in visible_text(view)


@pytest.fixture
def config_of_script() -> Preview:
    import dataclasses

    made = preview(1, 2, known=Known(), training={"steps": 3})
    plan = dataclasses.replace(made.plan, kind="script", batch=None)
    return dataclasses.replace(made, plan=plan, config=RunConfig.model_construct(), arithmetic=())


def visible_text(view: DataView) -> str:
    return "\n".join(
        label.text().replace("&", "") for label in view.findChildren(QLabel) if label.isVisible()
    )
