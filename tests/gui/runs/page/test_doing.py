"""What a run is said to be doing, and what can be asked of it."""

from dataclasses import replace

import pytest

from support.values.run_entries import FAILED, live_view, over_view, progress, run_id
from torchdeck.runs.run_state import RankView, RunState
from torchdeck.runs.view import RunView
from torchdeck_app.runs.abilities import abilities
from torchdeck_app.runs.page.activity_texts import doing, facts, rank_lines

LIVE = live_view(run_id(1))
OVER = over_view(run_id(1))
FAILURE = over_view(run_id(1), FAILED)


def with_phases(*phases: str) -> RunView:
    ranks = tuple(RankView(rank, phase, step=7) for rank, phase in enumerate(phases))
    return replace(LIVE, ranks=ranks, world_size=len(phases))


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (LIVE, "starting 2 ranks"),
        (with_phases("compiling", "compiling"), "compiling the model"),
        (with_phases("training", "saving", "saving"), "saving a checkpoint (2 of 3 ranks)"),
        (with_phases("something new"), "something new"),
        (replace(LIVE, state=RunState.PREPARING), "preparing devices and code"),
        (replace(LIVE, state=RunState.QUEUED, why="waits for GPU 0"), "waits for GPU 0"),
        (replace(LIVE, state=RunState.STOPPING, why="stop requested"), "stop requested"),
        (OVER, "all ranks finished"),
    ],
)
def test_what_it_does_now(view: RunView, said: str) -> None:
    assert doing(view) == said


def test_facts_of_a_run_that_goes_on_and_of_one_that_is_over() -> None:
    assert facts(LIVE, progress(1240, 2000, eta=134), 200.0) == (
        "step 1,240 / 2,000  ·  2 min 14 s left  ·  1 min 39 s so far  ·  2 ranks, ddp"
    )
    assert facts(LIVE, progress(7, 9, samples_per_s=12.5), 200.0).startswith("step 7 / 9  ·  12.5 smp/s")
    told = progress(7, 9, epoch=0.25, steps_per_s=0.5)
    assert facts(LIVE, told, 200.0).startswith("step 7 / 9  ·  epoch 0.25  ·  0.50 steps/s  ·  ")
    assert facts(replace(OVER, kind="imported"), told, 1e9).endswith("  ·  imported")
    assert (
        facts(OVER, progress(2000, 2000, eta=3), 1e9) == "step 2,000 / 2,000  ·  4 s taken  ·  2 ranks, ddp"
    )


def test_what_an_earlier_attempt_took_is_not_said_while_another_starts() -> None:
    starting = replace(LIVE, state=RunState.STARTING)
    assert facts(starting, progress(253, 500, eta=1200, samples_per_s=12.5), 200.0) == (
        "step 253 / 500  ·  1 min 39 s so far  ·  2 ranks, ddp"
    )


def test_many_ranks_do_not_fill_the_screen() -> None:
    lines = rank_lines(with_phases(*["training"] * 100)).splitlines()
    assert lines[0] == "rank 0: training, step 7"
    assert lines[-1] == "and 68 more ranks"
    assert len(lines) == 33


def test_a_live_run_can_be_stopped_and_nothing_else() -> None:
    able = abilities(LIVE)
    assert (able.stop, able.stop_now, able.clone) == ("", "", "")
    assert able.delete == "the run is running: stop it first"
    assert able.resume == "the run is running"


def test_a_job_of_slurm_is_asked_to_stop_and_only_slurm_does_more() -> None:
    able = abilities(replace(LIVE, job="12"))
    assert (able.stop, able.stop_now) == ("", "only Slurm can end it now: `scancel 12` on the cluster")
    assert able.stacks == able.clone == f"an exported script started {LIVE.name}, as job 12 of Slurm"
    assert facts(replace(LIVE, job="12"), None, 200.0).endswith("  ·  Slurm job 12")


def test_what_was_asked_is_not_asked_again() -> None:
    assert abilities(LIVE, {"stop"}).stop
    assert not abilities(LIVE, {"stop"}).stop_now
    assert abilities(replace(LIVE, requests_waiting=("stop_now",))).stop_now
    assert abilities(replace(FAILURE, resumable=True), {"resume"}).resume == "it is being resumed"


def test_what_is_over_can_be_resumed_where_there_is_something_to_go_on_from() -> None:
    assert "no checkpoint" in abilities(FAILURE).resume
    assert not abilities(replace(FAILURE, resumable=True)).resume
    assert not abilities(replace(FAILURE, state=RunState.LOST)).resume, "only the folder knows"
    assert "nothing is left to do" in abilities(OVER).resume
    assert not abilities(OVER).delete
    assert abilities(replace(OVER, processes_alive=True)).delete
    assert abilities(replace(OVER, processes_alive=True)).stop_now, "its agent is about to end"
    left = replace(OVER, state=RunState.LOST, end_written=False, processes_alive=True)
    assert not abilities(left).stop_now


def test_a_run_whose_ranks_go_on_elsewhere_is_stopped_before_it_is_deleted() -> None:
    alone = replace(FAILURE, nodes_alone=("node2",))
    assert abilities(alone, living_alone=("node2",)).delete == (
        "ranks of it continue without their leader on node2: stop it first"
    )
    assert not abilities(alone, living_alone=("node2",)).stop
    assert not abilities(alone).delete, "it has said that none lives there"


def test_what_cannot_be_read_can_be_stopped_and_nothing_else() -> None:
    able = abilities(None)
    assert (able.stop, able.stop_now) == ("", "")
    assert able.resume == able.attach == able.clone == able.delete == "the run cannot be read"
    assert abilities(None, {"stop"}).stop == "it is being stopped"


def test_a_lost_run_is_stopped_if_it_may_live_on() -> None:
    lost = replace(FAILURE, state=RunState.LOST)
    assert abilities(lost).stop == abilities(lost).stop_now == "the run has been lost"
    assert abilities(replace(lost, unfenced=("node2",))).stop == ""
    assert abilities(replace(lost, unfenced=("node2",))).stop_now == ""
