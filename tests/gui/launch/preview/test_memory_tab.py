"""The memory tab: bars, suggestions and strategies, as a person sees and uses them."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from support.values import small_profile
from support.values.previews import GIB, memory, preview, with_memory
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.known import Known
from torchdeck.plan.memory.spec import Kind, StrategySpec, kind_of
from torchdeck.plan.memory.suggest import Suggestion
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.memory_bars import TERMS
from torchdeck.plan.preview.strategies import strategy_change
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.memory_bars import StackedBar
from torchdeck_app.launch.preview.memory_tab import MemoryView
from torchdeck_app.theme.theme import Theme

SUGGESTION = Suggestion(
    {"training.microbatch": 4, "training.accumulation": 2},
    "training.microbatch = 4, training.accumulation = 2: 60.0 GiB at the peak",
    60 * GIB,
    "fits",
)


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, operations: Operations) -> MemoryView:
    made = MemoryView(theme, operations)
    made.resize(800, 900)
    qtbot.addWidget(made)
    made.show()
    return made


def traced(**tables: Any) -> Preview:
    """A run whose strategies can be compared."""
    known = Known(small_profile.profile(small_profile.trace(), small_profile.trace(cast=True)))
    training = {"steps": 3, "microbatch": 1, "accumulation": 1}
    return preview(2, 2, known=known, training=training, **tables)


def needing(*groups: PredictedMemory, suggestions: tuple[Suggestion, ...] = ()) -> Preview:
    made = with_memory(preview(2, 8, training={"steps": 3}), *groups)
    assert made.memory is not None
    return dataclasses.replace(made, memory=dataclasses.replace(made.memory, suggestions=suggestions))


def laid_out(bar: StackedBar) -> bool:
    """Whether it has its place; Qt gives it after the event that asked for it."""
    return bar.isVisible() and 200 < bar.width() < 640 and bar.height() == bar.sizeHint().height()


def visible_text(view: MemoryView) -> str:
    return "\n".join(label.text() for label in view.findChildren(QLabel) if label.isVisible())


def test_verdict_peak_and_capacity_are_said(qtbot: QtBot, view: MemoryView) -> None:
    view.show_preview(needing(memory(0, 7), memory(8, 15, peak=38, capacity=40, verdict="tight")))
    assert view.verdict.number.text() == "◐ tight"
    assert view.verdict.caption.text() == "95 % of the device"
    assert view.peak.number.text() == "38.0 GiB"
    assert view.source.text().startswith("traced")
    text = visible_text(view)
    for said in ("ranks 0–7", "ranks 8–15", "✓ fits, 50 %", "◐ tight, 95 %", "4.0 GiB\nstays between steps"):
        assert said in text, said


def test_a_part_says_its_size_to_pointer_and_keyboard(qtbot: QtBot, view: MemoryView) -> None:
    view.show_preview(needing(memory()))
    (bar,) = view.groups.bars
    qtbot.waitUntil(lambda: laid_out(bar))
    bar.setFocus(Qt.FocusReason.TabFocusReason)
    bar.point_at(0)
    assert view.readout.text() == "parameters: 6.0 GiB, 15 % of 40.0 GiB"
    qtbot.keyClick(bar, Qt.Key.Key_End)
    assert bar.accessibleDescription() == "other: 2.0 GiB, 5 % of 40.0 GiB; of it buckets 2.0 GiB"
    qtbot.mouseMove(bar, QPoint(4, bar.height() - 12))
    qtbot.waitUntil(lambda: view.readout.text().startswith("parameters"))


def test_colours_are_the_six_of_the_scheme(qtbot: QtBot, view: MemoryView, theme: Theme) -> None:
    view.show_preview(needing(memory()))
    qtbot.waitUntil(lambda: laid_out(view.groups.bars[0]))
    for mode in ("light", "dark"):
        theme.set_mode(mode)
        image = view.groups.bars[0].grab().toImage()
        y = image.height() - 14
        seen = {image.pixelColor(x, y).name() for x in range(image.width())}
        wanted = {QColor(getattr(term, mode)).name() for term in TERMS if term.name != "gathered"}
        assert wanted <= seen


def test_a_suggestion_is_applied_with_a_click(qtbot: QtBot, view: MemoryView) -> None:
    view.show_preview(needing(memory(peak=120, verdict="does not fit"), suggestions=(SUGGESTION,)))
    assert SUGGESTION.sentence in visible_text(view)
    (button,) = view.suggestions.buttons
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert asked.args == [dict(SUGGESTION.change)]
    view.show_preview(needing(memory()))
    assert SUGGESTION.sentence not in visible_text(view)


def test_that_nothing_helps_is_said(qtbot: QtBot, view: MemoryView) -> None:
    view.show_preview(needing(memory(peak=120, verdict="does not fit")))
    assert "No change that was tried makes it fit. The largest part is activations." in visible_text(view)


def test_what_a_script_does_is_not_applied(qtbot: QtBot, view: MemoryView) -> None:
    made = needing(memory(peak=120, verdict="does not fit"), suggestions=(SUGGESTION,))
    view.show_preview(dataclasses.replace(made, plan=dataclasses.replace(made.plan, batch=None)))
    assert SUGGESTION.sentence in visible_text(view)
    assert view.suggestions.buttons == []
    qtbot.waitUntil(lambda: "A script chooses its own strategy" in visible_text(view))
    assert view.strategies.button("fsdp") is None


def test_strategies_stand_side_by_side_and_one_is_taken(qtbot: QtBot, view: MemoryView) -> None:
    view.show_preview(traced(distributed={"strategy": "fsdp"}))
    qtbot.waitUntil(lambda: len(view.strategies.bars) == 6)
    assert view.strategies.button("fsdp") is None
    text = visible_text(view)
    assert "✓ chosen" in text
    assert "stay between steps; sends" in text
    button = view.strategies.button("zero3")
    assert button is not None
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert asked.args == [{"distributed.strategy": "deepspeed", "distributed.deepspeed.zero_stage": 3}]


def test_strategies_that_cannot_be_judged_say_why(qtbot: QtBot, view: MemoryView) -> None:
    view.show_preview(needing(memory()))
    qtbot.waitUntil(lambda: "the model was not traced with" in visible_text(view))
    assert view.strategies.bars == []
    assert view.strategies.button("fsdp") is None


def test_only_the_newest_preview_is_answered(qtbot: QtBot, view: MemoryView) -> None:
    for strategy in ("ddp", "hsdp", "fsdp"):
        view.show_preview(traced(distributed={"strategy": strategy}))
    qtbot.waitUntil(lambda: len(view.strategies.bars) == 6)
    qtbot.waitUntil(lambda: view.strategies.button("fsdp") is None)
    assert view.strategies.button("hsdp") is not None


def test_nothing_is_compared_while_it_is_not_seen(qtbot: QtBot, theme: Theme, operations: Operations) -> None:
    hidden = MemoryView(theme, operations)
    qtbot.addWidget(hidden)
    hidden.show_preview(traced())
    assert operations.running == ()
    hidden.show()
    qtbot.waitUntil(lambda: len(hidden.strategies.bars) == 6)


def test_why_nothing_is_shown(qtbot: QtBot, view: MemoryView) -> None:
    view.show_preview(None, "The file is not TOML.")
    assert "The file is not TOML." in visible_text(view)
    unknown = preview(1, 2, known=Known(failure="memory is not predicted: no trust"), training={"steps": 3})
    view.show_preview(unknown)
    assert "Memory is not predicted: no trust." in visible_text(view)
    view.show_preview(dataclasses.replace(unknown, plan=dataclasses.replace(unknown.plan, batch=None)))
    assert "[estimate]" in visible_text(view)


def test_groups_that_the_ranks_do_not_make_are_written_over() -> None:
    """The comparison shows hsdp as it can be; what is taken is what was shown."""
    spec = StrategySpec("hsdp", world_size=6, shard=3)
    assert strategy_change(spec, asked=4) == {"distributed.strategy": "hsdp", "distributed.hsdp.shard": 3}
    assert strategy_change(spec, asked=3) == strategy_change(spec) == {"distributed.strategy": "hsdp"}


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3"])
def test_a_change_of_strategy_is_one_that_loads(kind: Kind, tmp_path: Path) -> None:
    """What a click writes is valid, and gives that strategy."""
    table: dict[str, Any] = {"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}
    for key, value in strategy_change(StrategySpec(kind, world_size=4, shard=2)).items():
        *tables, last = key.split(".")
        inside = table
        for name in tables:
            inside = inside.setdefault(name, {})
        inside[last] = value
    assert kind_of(config_from_dict(table, tmp_path).distributed) == kind
