"""What only the nodes of a gang may know: its token, and the run's secrets."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from support.agents.agent_scripts import kill
from support.agents.gang_scripts import WAITING, Maker, go, up, wait_for_another
from support.waiting import wait_until


def test_who_does_not_hold_the_token_is_turned_away(make_gang: Maker) -> None:
    """An agent with another token never takes part; the one with the right one does."""
    run = make_gang("print('ok')")
    run.start_agent("alpha")
    fields = run.wait("listening").fields
    run.leader_address = (fields["address"], fields["port"])
    stranger = run.start_agent("beta", token="another")  # noqa: S106 - of a test
    log = run.node("beta").log
    wait_until(lambda: "does not hold the token" in log.read_text(), 20, "the stranger to be turned away")
    assert not run.events("node_joined")
    stranger.kill()
    stranger.wait(10)
    run.start_agent("beta")
    assert run.finished()["state"] == "SUCCEEDED"


def test_secrets_reach_the_ranks_and_nothing_else(make_gang: Maker) -> None:
    """A canary is in the environment of ranks and torchrun alone: in no file, argv, agent or shim."""
    canary = "canary-" + os.urandom(8).hex()
    run = make_gang(
        "import hashlib, os; print('sha', hashlib.sha256(os.environ['THE_KEY'].encode()).hexdigest())\n"
        + WAITING,
        secrets={"THE_KEY": canary},
    )
    up(run.start())
    agent = run.agent("beta")
    kill(agent)  # the shim hands it on to the next one
    wait_for_another(run, "beta", agent)
    assert hashlib.sha256(canary.encode()).hexdigest() in run.stdout(1)
    needle = canary.encode()
    for name in run.names:
        for path in run.layouts[name].root.rglob("*"):
            # what is written again each second has another name first, and is gone by that
            with contextlib.suppress(FileNotFoundError):
                assert not path.is_file() or needle not in path.read_bytes(), path
        for process in (run.agent(name), run.held(name, "holder")):
            assert process is not None
            assert needle not in Path(f"/proc/{process.pid}/environ").read_bytes()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert needle not in path.read_bytes() or path.parent.name == str(os.getpid())
        except (FileNotFoundError, ProcessLookupError):
            continue
    go(run)
    assert run.finished()["state"] == "SUCCEEDED"


def test_a_secret_that_nobody_has_is_named(make_gang: Maker) -> None:
    """The run does not start without it."""
    run = make_gang("print('never')", secrets={"THE_KEY": "value"})
    run.secrets = {}
    finished = run.start().finished()
    assert finished["state"] == "FAILED"
    assert "THE_KEY has no value here" in finished["why"]
