"""The agent on real processes, torchrun played by a quick stand-in."""

from support.agent_run import Maker


def test_a_run_that_ends_well_is_succeeded(make_run: Maker) -> None:
    """Both ranks exit with 0: SUCCEEDED, each exit journaled, nothing left alive."""
    run = make_run("import os; print('rank', os.environ['RANK'])").start()
    assert run.finished()["state"] == "SUCCEEDED"
    exits = {event.fields["rank"]: event.fields["code"] for event in run.events("rank_exited")}
    assert exits == {0: 0, 1: 0}
    assert run.stdout(1) == "rank 1\n"
