"""A rank's two logs, followed: steps from bars, times of printing, continued by the next agent."""

from __future__ import annotations

import math
from pathlib import Path

from torchdeck.agent.ranks.printed_series import PrintedSeries
from torchdeck.agent.ranks.script_book import ScriptBook
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.contract.run_states import RankPhase
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.trainers.reading import Reading

EVER = math.inf
BAR = "\r{:3}%|{:10}| {}/10 [00:01<00:09,  1.00it/s]"
WIPED = "\r" + " " * 40 + "\r"


def rank_of(run: Path) -> RankLayout:
    """Rank 0 of a run's first attempt."""
    rank = RunLayout(run).attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    return rank


def bar(done: int) -> str:
    return BAR.format(10 * done, "█" * done, done)


def append(path: Path, text: str) -> None:
    with path.open("ab") as file:
        file.write(text.encode())


def noted(rank: RankLayout, *rows: tuple[float, int, int]) -> None:
    """What agents recorded: at which time the logs were how long."""
    with rank.log_times.open("ab") as file:
        file.writelines(ROW.pack(*row) for row in rows)


def values(run: Path, name: str) -> tuple[list[int], list[float], list[float]]:
    """Steps, times and values of rank 0's metric."""
    metrics = RunMetrics(run)
    metrics.refresh()
    series = metrics.series(name, 0)
    return series.steps.tolist(), series.times.tolist(), series.values.tolist()


def test_a_dict_on_stdout_has_the_step_of_the_bar_on_stderr(tmp_path: Path) -> None:
    """It waits for the redrawn bar, which a poll may find a moment later."""
    rank = rank_of(tmp_path)
    book = ScriptBook(rank.script)
    series = PrintedSeries(rank, (), book)
    append(rank.stderr, bar(0) + bar(3))
    append(rank.stdout, "{'loss': '2.5', 'epoch': '0.3'}\n")
    assert not series.follow(EVER)
    assert not list(rank.root.glob("metrics/*"))
    append(rank.stderr, WIPED + bar(3))
    series.follow(EVER)
    assert values(tmp_path, "loss")[0] == [3]
    state = book.state
    assert (state.step, state.total, state.epoch, state.phase) == (3, 10, 0.3, RankPhase.TRAINING)
    assert (state.origins["step"].layer, state.origins["step"].name) == ("stderr", "progress bar")
    assert state.origins["loss"].layer == "stdout"


def test_a_dict_without_a_bar_has_its_step_by_the_trainers_state_file(tmp_path: Path) -> None:
    """Until the file tells how long an epoch is, the record waits."""
    rank = rank_of(tmp_path)
    book = ScriptBook(rank.script)
    series = PrintedSeries(rank, (), book)
    append(rank.stdout, "{'loss': '2.5', 'epoch': '0.25'}\n")
    noted(rank, (1000.0, rank.stdout.stat().st_size, 0))  # long ago: no bar comes any more
    series.follow(EVER)
    assert not list(rank.root.glob("metrics/*"))
    book.take(Reading(step=500, epoch=1.25, total=800), "file", "trainer_state.json")
    append(rank.stdout, "{'loss': '2.25', 'epoch': '1.275'}\n")
    series.follow(EVER)
    assert values(tmp_path, "loss")[0] == [100, 510]


def test_a_bar_that_is_found_after_the_last_record_tells_the_steps(tmp_path: Path) -> None:
    """On a busy machine the logs are not as they were at one moment."""
    rank = rank_of(tmp_path)
    series = PrintedSeries(rank, ())
    append(rank.stdout, "{'loss': '2.5', 'epoch': '0.1'}\n")
    append(rank.stdout, "{'train_runtime': 9.0, 'train_steps_per_second': 1.0, 'epoch': '1.0'}\n")
    series.follow(EVER)
    assert not list(rank.root.glob("metrics/*"))
    append(rank.stderr, bar(0) + bar(1) + WIPED + bar(1) + bar(10) + WIPED + bar(10))
    series.follow(EVER)
    series.close()
    assert values(tmp_path, "loss")[0] == [1]
    assert values(tmp_path, "train_runtime")[0] == [10]


def test_other_lines_above_the_bar_are_told_by_the_epoch(tmp_path: Path) -> None:
    """A program writes messages the same way; the bar is redrawn below them, too."""
    rank = rank_of(tmp_path)
    series = PrintedSeries(rank, ())
    for step in range(1, 9):
        append(rank.stderr, bar(step) + WIPED + bar(step))
        append(rank.stdout, f"{{'loss': '{step}.5', 'epoch': '{step / 10}'}}\n")
        if step == 3:
            append(rank.stdout, "saving samples\n")
            append(rank.stderr, WIPED + bar(step) + bar(step + 1) + WIPED + bar(step + 1))
    series.follow(EVER)
    assert values(tmp_path, "loss")[::2] == (list(range(1, 9)), [step + 0.5 for step in range(1, 9)])


def test_the_newest_drawing_counts_before_its_end_is_written(tmp_path: Path) -> None:
    """tqdm ends a drawing with the next one, which may be a minute away."""
    rank = rank_of(tmp_path)
    book = ScriptBook(rank.script)
    series = PrintedSeries(rank, (), book)
    append(rank.stderr, bar(0) + bar(1))
    series.follow(EVER)
    assert book.state.step == 1
    append(rank.stderr, "\r 20%|██        | 2/10 [00:0")
    series.follow(EVER)
    assert book.state.step == 1


def test_a_line_without_its_end_is_no_bar(tmp_path: Path) -> None:
    """It counts once, when it has ended."""
    rank = rank_of(tmp_path)
    series = PrintedSeries(rank, ())
    append(rank.stdout, "| loss: 1.5 | lr: [0.1]")
    series.follow(EVER)
    append(rank.stdout, "\n")
    series.follow(EVER)
    assert values(tmp_path, "loss")[0] == [0]


def test_rows_have_the_times_at_which_lines_were_printed(tmp_path: Path) -> None:
    """An agent that comes an hour late writes the times that were recorded."""
    rank = rank_of(tmp_path)
    first, second = "step 1: loss 3.0\n", "step 2: loss 2.0\n"
    append(rank.stdout, first + second)
    append(rank.stderr, "\r 50%|█████     | 5/10 [00:01<00:01,  5.0it/s, speed=7]\r")
    stderr = rank.stderr.stat().st_size
    noted(rank, (1000.0, len(first), 0), (1007.5, len(first) + len(second), 0), (1009.0, 34, stderr))
    series = PrintedSeries(rank, ())
    series.follow(EVER)
    series.close()
    assert values(tmp_path, "loss") == ([1, 2], [1000.0, 1007.5], [3.0, 2.0])
    assert values(tmp_path, "speed") == ([5], [1009.0], [7.0])


def test_lines_of_an_hour_get_the_steps_that_the_bar_had_then(tmp_path: Path) -> None:
    """Both logs are read side by side by their times, not one after the other."""
    rank = rank_of(tmp_path)
    for step in range(1, 11):
        append(rank.stderr, bar(step) + "\r")
        append(rank.stdout, f"loss: {10 - step}.5\n")
        noted(rank, (1000.0 + 60 * step, rank.stdout.stat().st_size, rank.stderr.stat().st_size))
    series = PrintedSeries(rank, ())
    series.follow(EVER)
    assert values(tmp_path, "loss")[0] == list(range(1, 11))


def test_the_next_agent_reads_each_line_of_both_logs_once(tmp_path: Path) -> None:
    """Values in bars of stderr, lines of stdout, and the count of lines that name no step."""
    rank = rank_of(tmp_path)
    for part in range(3):
        series = PrintedSeries(rank, ())
        for step in (2 * part + 1, 2 * part + 2):
            append(rank.stderr, f"\r 17%|█▋        | {step}/6 [00:01<00:01,  5.0it/s, speed={step}]\r")
            append(rank.stdout, f"step {step} loss {step}.5\n")
        series.follow(EVER)
        series.close()
    assert values(tmp_path, "loss")[0] == [1, 2, 3, 4, 5, 6]
    assert values(tmp_path, "speed")[0] == [1, 2, 3, 4, 5, 6]


def test_the_next_agent_knows_how_many_epochs_a_bar_has_passed(tmp_path: Path) -> None:
    """A bar without a label begins again with each epoch."""
    rank = rank_of(tmp_path)
    drawn = "\r 50%|█████     | {}/4 [00:01<00:01,  5.0it/s, loss={}]\r"
    for epoch in range(3):
        for half in ((1, 2), (3, 4)):
            series = PrintedSeries(rank, ())
            for done in half:
                append(rank.stderr, drawn.format(done, 10 * epoch + done))
            series.follow(EVER)
            series.close()
    assert values(tmp_path, "loss")[0] == list(range(1, 13))


def test_an_evaluation_is_a_phase_and_no_step(tmp_path: Path) -> None:
    """A bar below the training's shows that the program evaluates; the step stays."""
    rank = rank_of(tmp_path)
    book = ScriptBook(rank.script)
    series = PrintedSeries(rank, (), book)
    append(rank.stderr, bar(4) + "\n\r 25%|██▌       | 1/4 [00:00<00:00,  4.62it/s]\x1b[A\r")
    series.follow(EVER)
    assert (book.state.step, book.state.total, book.state.phase) == (4, 10, RankPhase.EVALUATING)
    append(rank.stderr, bar(5) + "\r")
    series.follow(EVER)
    assert (book.state.step, book.state.phase) == (5, RankPhase.TRAINING)


def test_users_patterns_count_on_both_streams(tmp_path: Path) -> None:
    """They go before the known formats."""
    rank = rank_of(tmp_path)
    series = PrintedSeries(rank, [r"it=(?P<step>\d+) nll=(?P<nll>[\d.]+)"])
    append(rank.stdout, "it=1 nll=2.5 loss=9\n")
    append(rank.stderr, "it=2 nll=1.5\n")
    series.follow(EVER)
    metrics = RunMetrics(tmp_path)
    metrics.refresh()
    assert metrics.names() == ["nll"]
    assert values(tmp_path, "nll")[0] == [1]  # stdout is believed where both have a metric
