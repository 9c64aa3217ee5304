"""The choice of plots that is remembered."""

import pytest

from torchdeck.runs.plots.catalogue import catalogue
from torchdeck_app.runs.plots.choices import Choices, YAxis
from torchdeck_app.runs.plots.plot_menus import parsed


def test_choices_are_remembered_and_nonsense_is_passed_over() -> None:
    metrics = catalogue(["loss", "lr", "step_time"], [])
    choices = Choices(order=("lr", "loss")).with_shown("step_time", on=False).with_log_y("loss", on=True)
    again = Choices.from_json(choices.to_json())
    assert again == choices
    assert [metric.key for metric in again.on_board(metrics)] == ["lr", "loss"]
    odd = {
        "axis": "bananas",
        "smoothing": "much",
        "order": [1, "lr"],
        "shown": {"lr": 3},
        "log_y": None,
        "limits": {"lr": [1], "loss": ["a", 2]},
    }
    assert Choices.from_json(odd) == Choices(order=("lr",))


def test_one_log_y_for_all_leaves_single_plots_their_own() -> None:
    choices = Choices(log_y=True).with_log_y("lr", on=False)
    assert (choices.y_axis("lr").log, choices.y_axis("loss").log) == (False, True)
    assert choices.with_log_y("lr", on=True).y_axis("lr").log


def test_limits_replace_the_ends_of_what_fits() -> None:
    choices = Choices().with_limits("loss", 0.0, None)
    assert Choices.from_json(choices.to_json()).y_axis("loss").limited((2.0, 4.0)) == (0.0, 4.0)
    assert YAxis(low=5.0).limited((2.0, 4.0)) == (2.0, 4.0)
    assert YAxis(log=True, low=0.0).limited((2.0, 4.0)) == (2.0, 4.0)
    assert choices.with_limits("loss", None, None) == Choices()


@pytest.mark.parametrize(
    ("text", "value"), [("", None), (" 1,200 ", 1200.0), ("1e-3", 1e-3), ("12k", 12_000.0), ("-2M", -2e6)]
)
def test_typed_numbers(text: str, value: float | None) -> None:
    assert parsed(text) == value
    for wrong in ("x", "inf", "1 2", "k"):
        with pytest.raises(ValueError, match="is not a number"):
            parsed(wrong)
