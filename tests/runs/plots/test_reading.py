"""What the board reads, against the rows: bands, gaps, axes, single points."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from support.agents.agent_run import make_plan
from support.values.metrics import opened, rank_folder, segment_path, write_columns, write_rows
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.prediction import PredictedMemory, Prediction
from torchdeck.metrics import Series, Window
from torchdeck.metrics.smoothing import window_means
from torchdeck.runs.plots.bands import band, median, spread
from torchdeck.runs.plots.catalogue import FORMULA, catalogue
from torchdeck.runs.plots.entries import at, latest, nearest_member
from torchdeck.runs.plots.exchange import BASELINE, Curve, Request
from torchdeck.runs.plots.mapping import Mapping
from torchdeck.runs.plots.plot_reader import PlotReader
from torchdeck.runs.plots.stretches import stretches

LOSS = (("loss", 400),)


def reader(*folders: Path) -> PlotReader:
    return PlotReader([RunLayout(folder) for folder in folders])


def long_run(folder: Path, rows: int = 50_000, *, rank: int = 0, shift: float = 0.0) -> np.ndarray:
    """A run of one metric; its values."""
    values = np.random.default_rng(rank).normal(size=rows) + shift
    steps = np.arange(rows)
    path = rank_folder(folder, rank) / "log-1.metrics"
    write_columns(path, {"loss": values}, steps=steps, times=1e9 + steps * 0.5)
    return values


def test_zoomed_in_every_row_is_there_as_it_was_logged(tmp_path: Path) -> None:
    values = long_run(tmp_path)
    whole = reader(tmp_path).answer(Request(LOSS))
    curve = whole.plots["loss"].curves[0]
    assert not curve.exact
    assert len(curve.x) <= 800
    assert whole.plots["loss"].high == values.max()
    assert whole.plots["loss"].low == values.min()
    near = reader(tmp_path).answer(Request(LOSS, zoom=(30_000, 30_100)))
    curve = near.plots["loss"].curves[0]
    assert curve.exact
    series = opened(tmp_path).series("loss", 0)
    np.testing.assert_array_equal(curve.x, series.steps[29_999:30_102])
    np.testing.assert_array_equal(curve.y, series.values[29_999:30_102])


@pytest.mark.parametrize("kind", ["relative", "wall"])
def test_zoom_by_time_finds_the_same_rows(tmp_path: Path, kind: str) -> None:
    values = long_run(tmp_path)
    start = 1e9 if kind == "wall" else 0.0
    asked = Request(LOSS, kind, zoom=(start + 15_000, start + 15_050))  # type: ignore[arg-type]  # a kind
    curve = reader(tmp_path).answer(asked).plots["loss"].curves[0]
    np.testing.assert_array_equal(curve.y, values[29_999:30_102])
    np.testing.assert_allclose(curve.x - start, np.arange(29_999, 30_102) * 0.5)


def test_on_an_axis_of_times_no_line_crosses_from_one_attempt_to_the_next(tmp_path: Path) -> None:
    steps = np.arange(10)
    for attempt, start in ((1, 1e9), (2, 1e9 + 1000)):
        path = segment_path(tmp_path, attempt=attempt)
        write_columns(path, {"loss": steps * 1.0}, steps=steps, times=start + steps)
    curve = reader(tmp_path).answer(Request(LOSS, "relative")).plots["loss"].curves[0]
    assert curve.breaks == (1000.0,)
    parts = stretches(curve.y, np.searchsorted(curve.x, curve.breaks).tolist())
    assert [(curve.x[part][0], curve.x[part][-1]) for part in parts] == [(0.0, 9.0), (1000.0, 1009.0)]
    assert not reader(tmp_path).answer(Request(LOSS)).plots["loss"].curves[0].breaks


def test_the_loss_has_its_place_before_it_comes(tmp_path: Path) -> None:
    system = RunLayout(tmp_path).node("n0").system / "system-1.metrics"
    write_columns(system, {"cpu_percent": np.ones(3)}, steps=np.arange(3), times=1e9 + np.arange(3))
    both = (("loss", 400), ("cpu", 400))
    answer = reader(tmp_path).answer(Request(both))
    assert [metric.key for metric in answer.metrics] == ["loss", "cpu"]
    assert answer.plots["loss"].curves == ()
    ended = reader(tmp_path).answer(Request(both, ended=True))
    assert [metric.key for metric in ended.metrics] == ["cpu"]
    write_rows(tmp_path, [(1, {"reward": 2.0})])
    other = reader(tmp_path).answer(Request(both))
    assert [metric.key for metric in other.metrics] == ["own:reward", "cpu"]


def test_tokens_are_the_axis_where_they_are_logged(tmp_path: Path) -> None:
    steps = np.arange(1, 101)
    tokens = np.cumsum(np.where(steps < 50, 100.0, 300.0))
    columns = {"loss": steps * 0.1, "tokens": tokens}
    write_columns(segment_path(tmp_path), columns, steps=steps, times=1e9 + steps)
    answer = reader(tmp_path).answer(Request(LOSS, "tokens"))
    curve = answer.plots["loss"].curves[0]
    np.testing.assert_array_equal(curve.x, tokens)
    near = reader(tmp_path).answer(Request(LOSS, "tokens", zoom=(tokens[59], tokens[69])))
    assert set(tokens[59:70]) <= set(near.plots["loss"].curves[0].x)
    assert answer.moments.time_at(tokens[79]) == pytest.approx(1e9 + 80)
    assert answer.moments.x_at(1e9 + 80) == pytest.approx(tokens[79])
    samples = reader(tmp_path).answer(Request(LOSS, "samples"))
    assert (samples.kind, samples.note) == ("step", "This run logs no samples: x is the step.")


def test_many_ranks_are_a_band_of_least_median_and_greatest(tmp_path: Path) -> None:
    values = np.stack([long_run(tmp_path, 100, rank=rank, shift=rank) for rank in range(12)])
    plot = reader(tmp_path).answer(Request((("loss", 1000),), zoom=(0, 99))).plots["loss"]
    assert not plot.curves
    (found,) = plot.bands
    np.testing.assert_array_equal(found.low, values.min(axis=0))
    np.testing.assert_array_equal(found.high, values.max(axis=0))
    np.testing.assert_allclose(found.median, np.median(values, axis=0))
    assert found.members[3] == "rank 3"
    picked = nearest_member(plot, 50.0, float(values[7, 50]))
    assert picked is not None
    assert picked[1] == 7
    texts = [entry.label for entry in at(plot, 50.0, "")]
    assert texts == ["median", f"max (rank {values[:, 50].argmax()})", "min"]
    write_columns(
        rank_folder(tmp_path, 12) / "log-1.metrics",
        {"loss": np.full(3, np.nan)},
        steps=np.arange(3),
        times=np.full(3, 1e9),
    )
    again = reader(tmp_path).answer(Request((("loss", 1000),), zoom=(0, 99))).plots["loss"]
    np.testing.assert_array_equal(again.bands[0].high, values.max(axis=0))
    assert again.odd_count == 3


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_median_leaves_out_what_is_missing(count: int) -> None:
    values = np.random.default_rng(count).normal(size=(count, 50))
    values[np.random.default_rng(1).random(values.shape) < 0.4] = np.nan
    values[0, np.isnan(values).all(axis=0)] = 1.0
    np.testing.assert_allclose(median(values), np.nanmedian(values, axis=0))


def test_columns_without_rows_are_not_in_the_band_and_those_without_numbers_are_gaps() -> None:
    edges = np.arange(4.0)
    empty = np.array([np.nan, 1.0, np.nan])
    window = Window(edges, empty, empty, np.array([0, 1, 1]), np.array([0, 0, 1]))
    found = band("m", 0, edges[:-1] + 0.5, ["rank 0", "rank 1"], [window, window])
    np.testing.assert_array_equal(found.x, [1.5, 2.5])
    for line in (found.low, found.median, found.high):
        np.testing.assert_array_equal(line, [1.0, np.nan])
    assert [(part.start, part.stop) for part in stretches(found.median)] == [(0, 1)]


def test_a_formula_has_a_plot_of_its_own(tmp_path: Path) -> None:
    """On all axes, smoothed, and for each rank that has its metrics."""
    for rank in (0, 1):
        rows = [(step, {"loss": float(step), "x": 1.0}) for step in range(1, 51)]
        write_rows(tmp_path, rows, rank=rank)
    write_rows(tmp_path, [(60, {"loss": 60.0, "x": 1.0})], attempt=2)
    key = f"{FORMULA}loss - x"
    asked = Request(((key, 400),), formulas=("loss - x", "loss -", "gone + x"))
    answer = reader(tmp_path).answer(asked)
    assert [metric.key for metric in answer.metrics] == ["loss", key, f"{FORMULA}gone + x", "own:x"]
    curves = answer.plots[key].curves
    assert [curve.label for curve in curves] == ["rank 0", "rank 1"]
    assert curves[1].y.tolist() == [float(step - 1) for step in range(1, 51)]
    assert curves[0].latest == 59.0
    timed = reader(tmp_path).answer(dataclasses.replace(asked, kind="relative")).plots[key].curves[0]
    assert len(timed.breaks) == 1
    near = reader(tmp_path).answer(dataclasses.replace(asked, zoom=(10, 20))).plots[key].curves[1]
    assert (near.y.min(), near.y.max()) == (8.0, 20.0), "one neighbour on either side"
    for by_window in (False, True):
        smooth = reader(tmp_path).answer(dataclasses.replace(asked, smoothing=0.9, by_window=by_window))
        assert smooth.plots[key].curves[1].raw is not None
        assert smooth.plots[key].curves[1].y[-1] < 48.0
    assert reader(tmp_path).answer(Request(((f"{FORMULA}gone + x", 400),), formulas=("gone + x",))).plots


def test_a_formula_of_several_runs_is_of_each_by_its_own_names(tmp_path: Path) -> None:
    write_rows(tmp_path / "a", [(step, {"loss": float(step)}) for step in range(1, 9)])
    write_rows(tmp_path / "b", [(step, {"train/loss": 2.0 * step}) for step in range(1, 9)])
    key = f"{FORMULA}loss * 10"
    answer = reader(tmp_path / "a", tmp_path / "b").answer(Request(((key, 400),), formulas=("loss * 10",)))
    assert [curve.latest for curve in answer.plots[key].curves] == [80.0, 160.0]


def test_what_is_no_number_is_a_gap_and_is_counted(tmp_path: Path) -> None:
    values = [1.0, 2.0, float("nan"), 4.0, float("inf"), 6.0]
    write_rows(tmp_path, [(step, {"loss": value}) for step, value in enumerate(values)])
    plot = reader(tmp_path).answer(Request(LOSS)).plots["loss"]
    np.testing.assert_array_equal(plot.curves[0].y, [1, 2, np.nan, 4, np.nan, 6])
    assert (plot.low, plot.high, plot.odd_count) == (1, 6, 2)
    np.testing.assert_allclose(plot.odd, [2, 4], atol=0.05)
    assert latest(plot, "")[0].text == "6"


def test_smoothing_draws_the_average_and_keeps_what_was_logged(tmp_path: Path) -> None:
    values = long_run(tmp_path, 100)
    plot = reader(tmp_path).answer(Request(LOSS, smoothing=0.9)).plots["loss"]
    last, wanted = 0.0, []
    for count, value in enumerate(values.tolist(), 1):
        last = 0.9 * last + 0.1 * value
        wanted.append(last / (1 - 0.9**count))
    np.testing.assert_allclose(plot.curves[0].y, wanted, rtol=1e-9)
    assert plot.curves[0].raw is not None
    np.testing.assert_array_equal(plot.curves[0].raw[1], values)


def test_smoothing_by_a_window_is_the_mean_of_its_rows(tmp_path: Path) -> None:
    """As many as smooth about as much as that weight does; of many rows, each column keeps its extremes."""
    values = long_run(tmp_path, 3000)
    wanted = np.array([values[max(0, row - 9) : row + 1].mean() for row in range(3000)])
    near = Request(LOSS, smoothing=0.9, by_window=True, zoom=(100, 300))
    curve = reader(tmp_path).answer(near).plots["loss"].curves[0]
    np.testing.assert_allclose(curve.y, wanted[100:301])
    np.testing.assert_array_equal(curve.x, np.arange(100, 301))
    whole = reader(tmp_path).answer(Request((("loss", 50),), smoothing=0.9, by_window=True))
    curve = whole.plots["loss"].curves[0]
    assert len(curve.x) == 2 * 2 * 50
    assert (curve.y.min(), curve.y.max()) == (pytest.approx(wanted.min()), pytest.approx(wanted.max()))


def test_a_window_passes_over_what_is_no_number() -> None:
    found = window_means(np.array([1.0, np.nan, 3.0, 5.0, np.inf]), 2)
    np.testing.assert_array_equal(found, [1.0, np.nan, 2.0, 4.0, np.inf])
    with pytest.raises(ValueError, match="1 row or more"):
        window_means(np.zeros(1), 0)


def test_a_logarithmic_x_axis_shows_the_first_steps_as_wide_as_the_last(tmp_path: Path) -> None:
    long_run(tmp_path, 10_000)
    answer = reader(tmp_path).answer(Request(LOSS, log_x=True))
    x = answer.plots["loss"].curves[0].x
    assert answer.extent is not None
    assert answer.extent[0] == 1.0
    assert np.count_nonzero(x < 10) >= 9
    assert np.count_nonzero(x < 100) >= 80


def test_nothing_after_a_moment_is_there_when_replayed(tmp_path: Path) -> None:
    values = long_run(tmp_path, 300)
    made = reader(tmp_path)
    assert len(made.answer(Request(LOSS)).plots["loss"].curves[0].y) == 300
    then = made.answer(Request(LOSS, until=1e9 + 100 * 0.5))
    np.testing.assert_array_equal(then.plots["loss"].curves[0].y, values[:101])
    assert then.plots["loss"].curves[0].latest == values[100]
    assert reader(tmp_path).answer(Request(LOSS, until=5.0)).extent is None


def test_a_resumed_run_shows_the_history_of_its_weights_by_step_and_all_by_time(tmp_path: Path) -> None:
    for attempt, steps in ((1, range(10)), (2, range(5, 12))):
        columns = {"loss": np.array([attempt * 100.0 + step for step in steps])}
        path = segment_path(tmp_path, attempt=attempt)
        times = 1e9 + 100 * attempt + np.array(steps, float)
        write_columns(path, columns, steps=np.array(steps), times=times)
    made = reader(tmp_path)
    by_step = made.answer(Request(LOSS)).plots["loss"].curves[0]
    np.testing.assert_array_equal(by_step.y, [100, 101, 102, 103, 104, *range(205, 212)])
    by_time = made.answer(Request(LOSS, "relative")).plots["loss"].curves[0]
    assert len(by_time.y) == 17


def test_a_nodes_series_lie_where_the_training_was_at_that_time(tmp_path: Path) -> None:
    long_run(tmp_path, 1000)
    node = RunLayout(tmp_path).node("node-a").system / "system-1.metrics"
    seconds = np.arange(0, 500, 10)
    write_columns(node, {"cpu_percent": seconds * 0.1}, steps=np.arange(len(seconds)), times=1e9 + seconds)
    plot = reader(tmp_path).answer(Request((("cpu", 400),))).plots["cpu"]
    np.testing.assert_allclose(plot.curves[0].x, seconds * 2.0)
    np.testing.assert_array_equal(plot.curves[0].y, seconds * 0.1)


def test_several_runs_are_laid_over_each_other(tmp_path: Path) -> None:
    long_run(tmp_path / "one", 100)
    long_run(tmp_path / "two", 150, shift=5)
    answer = reader(tmp_path / "one", tmp_path / "two").answer(Request(LOSS))
    curves = answer.plots["loss"].curves
    assert [(curve.label, curve.colour, len(curve.x)) for curve in curves] == [
        ("one", 0, 100),
        ("two", 1, 150),
    ]


def test_more_than_eight_runs_are_their_mean_and_deviation(tmp_path: Path) -> None:
    """A run counts as far as it goes; of its ranks, the median does."""
    values = np.stack([long_run(tmp_path / f"r{run}", 100, rank=0, shift=run) for run in range(9)])
    long_run(tmp_path / "short", 50)
    folders = [*(tmp_path / f"r{run}" for run in range(9)), tmp_path / "short"]
    plot = reader(*folders).answer(Request((("loss", 100),), zoom=(0, 99))).plots["loss"]
    assert not plot.curves
    (band,) = plot.bands
    assert (band.spread, len(band.members)) == (True, 10)
    late = band.x > 60
    np.testing.assert_allclose(band.median[late], values.mean(axis=0)[61:][: late.sum()], atol=0.1)
    np.testing.assert_allclose((band.high - band.low)[late] / 2, np.std(np.arange(9), ddof=1), atol=0.1)
    texts = [entry.label for entry in at(plot, 70.0, "")]
    assert texts == ["mean", "mean + deviation", "mean − deviation"]


def test_the_mean_of_runs_is_that_of_their_mid_ranges_with_gaps_as_gaps() -> None:
    """Reduced curves have two values per x: minimum and maximum."""
    x = np.repeat(np.array([1.0, 10.0, 100.0, 1000.0]), 2)
    low_high = np.array([0.0, 4.0] * 4)
    high = Curve("b", 1, x, low_high + 2)
    found = spread("loss", 0, [Curve("a", 0, x, low_high), high], 4, log=True)
    np.testing.assert_allclose(found.x, [1, 10, 100, 1000])
    np.testing.assert_allclose(found.median, 3.0)
    np.testing.assert_allclose(found.high - found.median, np.sqrt(2))
    gap = Curve("gap", 0, np.arange(5.0), np.array([1.0, 1.0, np.nan, 5.0, 5.0]))
    found = spread("loss", 0, [gap, Curve("b", 1, np.arange(5.0), np.full(5, 3.0))], 5)
    np.testing.assert_allclose(found.median, [2, 2, 3, 4, 4])


def test_a_baseline_is_one_dashed_curve_under_the_others(tmp_path: Path) -> None:
    """Of many ranks their median; where it ends does not move the axis of x, but its values that of y."""
    long_run(tmp_path / "one", 100)
    ranks = np.stack([long_run(tmp_path / "old", 150, rank=rank, shift=9.0) for rank in range(3)])
    made = PlotReader([RunLayout(tmp_path / "one")], (), (RunLayout(tmp_path / "old"), "old"))
    answer = made.answer(Request((("loss", 1000),), zoom=(0, 99)))
    baseline, own = answer.plots["loss"].curves
    assert (baseline.label, baseline.colour, baseline.dashed, own.colour) == (
        "baseline old",
        BASELINE,
        True,
        0,
    )
    np.testing.assert_allclose(baseline.y, np.median(ranks[:, :100], axis=0))
    assert answer.plots["loss"].high == pytest.approx(max(baseline.y.max(), own.y.max()))
    assert answer.extent == (0.0, 100.0)


def test_the_same_answer_comes_back_while_nothing_is_new(tmp_path: Path) -> None:
    long_run(tmp_path, 100)
    made = reader(tmp_path)
    first = made.answer(Request(LOSS))
    assert made.answer(Request(LOSS)) is first
    assert made.answer(Request(LOSS, smoothing=0.5)) is not first


def test_a_run_without_metrics_has_no_plots(tmp_path: Path) -> None:
    answer = reader(tmp_path).answer(Request(LOSS))
    assert (answer.metrics, answer.plots, answer.extent) == ((), {}, None)


def test_mapping_goes_from_steps_to_times_and_back() -> None:
    series = Series(np.array([0, 10, 20]), np.array([100.0, 110, 140]), np.zeros(3), np.zeros(3, np.int32))
    mapping = Mapping.of(series, series)
    assert mapping.time_of_step(15) == 125
    np.testing.assert_allclose(mapping.x_of_times("step", np.array([105.0, 125.0])), [5, 15])
    np.testing.assert_allclose(mapping.x_of("relative", np.array([110.0])), [10])


def test_the_catalogue_knows_what_belongs_together() -> None:
    names = [
        "loss",
        "validation_loss",
        "step_time",
        "accuracy",
        "grad_norm/layer.weight",
        "tokens",
        "my_bytes",
    ]
    system = ["gpu0_util", "gpu1_util", "gpu0_memory_total_bytes", "cpu_percent", "net_rx_bytes_per_s"]
    found = {metric.key: metric for metric in catalogue(names, system)}
    assert found["loss"].names == ("loss", "validation_loss")
    assert found["loss"].labels == ("train", "validation")
    assert found["gpu_util"].labels == ("GPU 0", "GPU 1")
    assert found["own:my_bytes"].unit == "bytes"
    assert not found["own:grad_norm/layer.weight"].shown
    assert not found["tokens"].shown
    assert next(iter(found)) == "loss"


@pytest.mark.parametrize(
    ("device", "metric", "levels"),
    [
        ("cuda:0", "memory_peak_bytes", ["predicted 30.0 GiB", "predicted 32.0 GiB", "capacity 80.0 GiB"]),
        ("cpu", "memory_growth_peak_bytes", ["predicted 30.0 GiB", "predicted 32.0 GiB"]),
    ],
)
def test_the_predicted_memory_lies_over_the_measured(
    tmp_path: Path, device: str, metric: str, levels: list[str]
) -> None:
    gib = 2**30

    def predicted(rank: int, peak: int) -> PredictedMemory:
        ranks = ((rank, rank),)
        return PredictedMemory(ranks, peak, peak, peak, "backward", {}, {}, 80 * gib, None, "fits")

    memory = (predicted(0, 30 * gib), predicted(1, 32 * gib))
    plan = make_plan(["true"], tmp_path)
    ranks = tuple(dataclasses.replace(rank, device=device) for rank in plan.ranks)
    plan = dataclasses.replace(plan, ranks=ranks, prediction=Prediction("traced", memory))
    write_rows(tmp_path, [(step, {metric: 29.0 * gib}) for step in range(3)])
    RunLayout(tmp_path).plan.write_text(json.dumps(plan.to_json()))
    key = "memory_peak" if device == "cuda:0" else "memory_growth"
    plot = reader(tmp_path).answer(Request(((key, 300),))).plots[key]
    assert [level.label for level in plot.levels] == levels
    RunLayout(tmp_path).plan.write_text("{")
    assert reader(tmp_path).answer(Request(((key, 300),))).plots[key].levels == ()
