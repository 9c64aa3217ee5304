"""Controllers and agents as real processes; torchrun is the quick stand-in."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.agents.agent_run import make_plan, script, with_policy
from support.agents.controlled_run import (
    controller_events,
    controllers,
    new_run,
    wait_for_state,
    wait_until_over,
)
from support.values.checkpoint_files import fill
from support.waiting import wait_until
from torchdeck.contract import free_space as disk
from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.checkpoints.manifest import checkpoint_name
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity, processes_of_run
from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory
from torchdeck.launching.launcher import CONTROLLER, start_controller
from torchdeck.launching.requests import STOP, STOP_NOW, write_request
from torchdeck.launching.taking_over import (
    NotResumableError,
    RequestCarrier,
    ensure_controller,
    resume,
)
from torchdeck.runs.follower import read_run
from torchdeck.trust.trust_list import TrustList
from torchdeck.use_cases.api import Run

pytestmark = pytest.mark.processes

WAITING = (
    "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); print('up'); time.sleep(60)"
)


@pytest.fixture
def waiting(home: Path, tmp_path: Path) -> Run:
    """A run whose ranks wait until they are stopped."""
    layout = new_run(make_plan(script(tmp_path, WAITING), tmp_path, policy=with_policy(stop_grace=2.0)))
    run = Run(layout, start_controller(layout))
    wait_for_state(layout, "RUNNING")
    return run


def test_a_plan_is_carried_out_to_its_end(home: Path, tmp_path: Path) -> None:
    """A started run succeeds, its controller says that it ended, and no one is left."""
    layout = new_run(make_plan(script(tmp_path, "print('done')"), tmp_path))
    run = Run(layout, start_controller(layout))
    view = run.wait(60)
    assert view.state == "SUCCEEDED"
    assert layout.attempt(1).rank(1).stdout.read_text() == "done\n"
    wait_until(lambda: controller_events(layout, "controller_ended"), 20, "the controller to end")
    wait_until(lambda: not run.view().controller_alive, 20, "the controller to be gone")


def test_failed_rank_is_named(home: Path, tmp_path: Path) -> None:
    """Exit code and rank of the first failure reach the view."""
    text = "import os, sys, time; sys.exit(7) if os.environ['RANK'] == '1' else time.sleep(30)"
    layout = new_run(make_plan(script(tmp_path, text), tmp_path))
    view = Run(layout, start_controller(layout)).wait(60)
    assert view.state == "FAILED"
    assert view.first_failure is not None
    assert (view.first_failure.rank, view.first_failure.code) == (1, 7)


def test_stop_is_forwarded_and_acknowledged(waiting: Run) -> None:
    """A request goes through the controller to the agent, which stops the run."""
    waiting.stop()
    assert waiting.wait(60).state == "CANCELLED"
    # it is handed over first and written down then
    (forwarded,) = wait_until(lambda: controller_events(waiting.layout, "request"), 20, "it to be journaled")
    assert forwarded.fields["kind"] == STOP
    assert waiting.view().requests_waiting == ()


def test_waiting_has_a_limit(waiting: Run) -> None:
    """A timeout leaves the run as it is."""
    with pytest.raises(TimeoutError, match="RUNNING"):
        waiting.wait(0.2)
    assert waiting.view().state == "RUNNING"


def test_run_goes_on_without_controller_and_a_stop_brings_another(waiting: Run) -> None:
    """After kill -9 of the controller the ranks continue; a stop starts a controller, which forwards it."""
    (first,) = controllers(waiting.layout)
    first.send(signal.SIGKILL)
    wait_until(lambda: not waiting.view().controller_alive, 5, "the controller to be gone")
    assert waiting.view().state == "RUNNING"
    waiting.stop(now=True)
    assert waiting.wait(60).state == "CANCELLED"
    assert [event.fields["epoch"] for event in controller_events(waiting.layout, "controller_started")] == [
        1,
        2,
    ]


def test_an_agent_that_is_stopped_does_not_keep_a_run_from_its_end(home: Path, tmp_path: Path) -> None:
    """It is alive, so no one would replace it: after launch.node_grace without a sign of life it is ended."""
    policy = with_policy(stop_grace=2.0, node_grace=2.0)
    layout = new_run(make_plan(script(tmp_path, WAITING), tmp_path, policy=policy))
    run = Run(layout, start_controller(layout))
    wait_for_state(layout, "RUNNING")
    frozen = ProcessIdentity.from_json(read_json(layout.node("localhost").lock))
    assert frozen is not None
    assert frozen.send(signal.SIGSTOP)
    run.stop(now=True)
    assert run.wait(60).state == "CANCELLED"
    (killed,) = controller_events(layout, "agent_killed")
    assert killed.fields["seconds"] >= 2.0
    assert not frozen.is_alive()
    wait_until(lambda: not processes_of_run(layout.root.name), 20, "the ranks to be gone")


def test_a_request_arrives_though_the_controller_died_with_it(waiting: Run) -> None:
    """It was alive when the request was written and forwarded nothing: who waits brings another."""
    (first,) = controllers(waiting.layout)
    first.send(signal.SIGSTOP)
    carrier = RequestCarrier(waiting.layout)
    write_request(waiting.layout, STOP_NOW, "test")
    carrier.look(waiting.view())
    assert len(controllers(waiting.layout)) == 1
    first.send(signal.SIGKILL)

    def over() -> bool:
        view = waiting.view()
        carrier.look(view)
        return view.is_over

    wait_until(over, 60, "the run to be over")
    assert waiting.view().state == "CANCELLED"


def test_later_controller_has_the_run_and_the_earlier_watches(waiting: Run, tmp_path: Path) -> None:
    """Of two controllers the first says it was superseded and ends with the run; the second forwards."""
    layout = waiting.layout
    argv = [sys.executable, "-m", CONTROLLER, str(layout.root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as second:
        wait_until(lambda: controller_events(layout, "superseded"), 30, "the first controller to give way")
        first = controllers(layout)[0]
        assert controller_events(layout, "superseded")[0].fields["by"]["pid"] == second.pid
        assert first.is_alive()
        waiting.stop()
        assert waiting.wait(60).state == "CANCELLED"
        second.communicate(timeout=20)
    assert len(controller_events(layout, "request")) == 1
    assert second.returncode == 0
    assert "another controller" in layout.controller_log.read_text()


def test_controller_started_on_a_finished_run_says_so(home: Path, tmp_path: Path) -> None:
    """There is nothing to control, and nothing is written."""
    layout = new_run(make_plan(script(tmp_path, ""), tmp_path))
    Run(layout, start_controller(layout)).wait(60)
    assert ensure_controller(layout) is None
    before = layout.journal.read_bytes()
    argv = [sys.executable, "-m", CONTROLLER, str(layout.root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "is over" in done.stdout
    assert layout.journal.read_bytes().startswith(before)


@pytest.mark.parametrize("node_inventory", ["version = 1\n", "no = book"])
def test_a_node_that_the_book_does_not_know_any_more_ends_the_run_with_a_reason(
    home: Path, tmp_path: Path, node_inventory: str
) -> None:
    """Renamed or removed while no one followed the run, or a book that cannot be read."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "nodes.toml").write_text(node_inventory)
    plan = make_plan(script(tmp_path, "print()"), tmp_path)
    elsewhere = dataclasses.replace(plan.nodes[0], name="gone")
    placed = tuple(dataclasses.replace(rank, node="gone") for rank in plan.ranks)
    layout = new_run(dataclasses.replace(plan, nodes=(elsewhere,), ranks=placed))
    controller = start_controller(layout)
    wait_until(lambda: controller.exit_code() == 3, 60, "the controller to give up")
    (failed,) = controller_events(layout, "transport_failed")
    assert "gone" in str(failed.fields["why"]) or "nodes.toml" in str(failed.fields["why"])


def test_agent_that_cannot_start_fails_the_run_with_its_words(home: Path, tmp_path: Path) -> None:
    """An agent that ends at once is tried a few times; then the run is FAILED and says what it said."""
    layout = new_run(make_plan(script(tmp_path, ""), tmp_path))
    for agent in (home / "shipped").glob("*/torchdeck/agent/__main__.py"):
        agent.unlink()
        agent.write_text("raise SystemExit('this node is not for you')")
    view = Run(layout, start_controller(layout)).wait(60)
    assert view.state == "FAILED"
    assert "this node is not for you" in view.why
    assert read_run(layout).first_failure is None


@pytest.mark.parametrize("content", [None, "{", '{"version": 99}'])
def test_unusable_plan_is_a_sentence(home: Path, tmp_path: Path, content: str | None) -> None:
    """A plan that is missing, torn or newer is refused with exit code 3."""
    layout = new_run(make_plan(script(tmp_path, ""), tmp_path))
    layout.plan.unlink()
    if content is not None:
        layout.plan.write_text(content)
    argv = [sys.executable, "-m", CONTROLLER, str(layout.root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "cannot be controlled" in done.stderr


def test_cancelled_script_is_not_resumed(waiting: Run) -> None:
    """A script has no checkpoint of ours: resuming is refused with how to start it again."""
    with pytest.raises(NotResumableError, match="RUNNING"):
        resume(waiting.layout, "test")
    waiting.stop()
    waiting.wait(60)
    with pytest.raises(NotResumableError, match="start it again"):
        resume(waiting.layout, "test")


def test_resumed_run_gets_another_attempt_and_no_old_request(home: Path, tmp_path: Path) -> None:
    """A recipe run resumes in its directory; a stop that came after its end does not end its new life."""
    layout = stopped_recipe_run(tmp_path)
    write_request(layout, STOP, "test")
    resume(layout, "test")
    view = wait_until_over(layout)
    assert view.state == "SUCCEEDED"
    assert [attempt.number for attempt in view.attempts] == [1, 2]
    assert controller_events(layout, "resumed")[0].fields["finished"] == 1
    with pytest.raises(NotResumableError, match="SUCCEEDED"):
        resume(layout, "test")


def test_resume_without_room_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less free than limits.min_free_disk the resume says so and begins nothing."""
    layout = stopped_recipe_run(tmp_path, min_free_bytes=1 << 20)
    monkeypatch.setattr(disk, "free_bytes", lambda _folder: 0)
    with pytest.raises(NotResumableError, match="make room"):
        resume(layout, "test")
    assert controller_events(layout, "resumed") == []


def test_resume_asks_again_for_a_python_that_changed(home: Path, tmp_path: Path) -> None:
    """It was trusted at the start, and others can write it by now: nothing is begun."""
    layout = stopped_recipe_run(tmp_path)
    python = tmp_path / "tools" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    plan = LaunchPlan.from_json(read_json(layout.plan))
    (node,) = plan.nodes
    changed = dataclasses.replace(node, command=(str(python), *node.command[1:]))
    write_json(layout.plan, dataclasses.replace(plan, nodes=(changed,)).document())
    with pytest.raises(NotResumableError, match=f"its folder {python.parent} is not trusted yet"):
        resume(layout, "test")
    TrustList(home).add(python.parent)
    python.parent.chmod(0o777)
    with pytest.raises(NotResumableError, match=f"everyone can write {python.parent}"):
        resume(layout, "test")
    assert controller_events(layout, "resumed") == []


def save_checkpoint(layout: RunLayout, step: int) -> None:
    """A committed checkpoint that says it is this run's."""
    layout.checkpoints.mkdir(parents=True, exist_ok=True)
    owner = CheckpointDirectory(layout.checkpoints)
    temporary = layout.checkpoints / ".tmp-test"
    owner.make_temporary(temporary)
    manifest = dataclasses.replace(fill(temporary, step), run_id=layout.root.name)
    owner.commit(temporary, checkpoint_name(step), manifest)


def stopped_recipe_run(folder: Path, *, min_free_bytes: int = 0) -> RunLayout:
    """A run with a checkpoint, stopped in its first attempt; its second succeeds at once."""
    text = """
        import os, time
        from pathlib import Path
        run = Path(os.environ["TORCHDECK_RUN_DIR"])
        if os.environ["TORCHDECK_ATTEMPT"] == "1":
            (run / f"up{os.environ['RANK']}").touch()
            stop = run / "attempts" / "1" / "stop"
            limit = time.monotonic() + 60
            while not stop.exists() and time.monotonic() < limit:
                time.sleep(0.05)
    """
    policy = with_policy(cooperative_stop=True, stop_grace=5.0, min_free_bytes=min_free_bytes)
    layout = new_run(make_plan(script(folder, text), folder, kind="recipe", policy=policy))
    run = Run(layout, start_controller(layout))
    wait_until((layout.root / "up1").exists, 60, "the ranks to be up")
    save_checkpoint(layout, 3)
    run.stop()
    view = run.wait(60)
    assert view.state == "CANCELLED"
    assert view.resumable
    return layout
