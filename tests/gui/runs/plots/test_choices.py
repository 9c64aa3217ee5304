"""The choice of plots that is remembered."""

from torchdeck.runs.plots.catalogue import catalogue
from torchdeck_app.runs.plots.chooser import Choices


def test_choices_are_remembered_and_nonsense_is_passed_over() -> None:
    metrics = catalogue(["loss", "lr", "step_time"], [])
    choices = Choices(order=("lr", "loss")).with_shown("step_time", on=False).with_log_y("loss", on=True)
    again = Choices.from_json(choices.to_json())
    assert again == choices
    assert [metric.key for metric in again.on_board(metrics)] == ["lr", "loss"]
    odd = {"axis": "bananas", "smoothing": "much", "order": [1, "lr"], "shown": {"lr": 3}, "log_y": None}
    assert Choices.from_json(odd) == Choices(order=("lr",))
