"""`torchdeck mcp` as an assistant uses it: a real server, and the protocol's own client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from support.cli.command import COMMAND, Command
from support.waiting import wait_until
from torchdeck.cli.mcp.json_command import CommandFailed, answers
from torchdeck.runs.follower import read_run

SCRIPT = """
import os
import torchdeck
for step in range(1, 1001):
    torchdeck.log({"loss": 1000.0 - step}, step=step)
print("hello of rank", os.environ["RANK"], flush=True)
"""


def asked(home: Path, question: Callable[[Client], Awaitable[None]], *words: str) -> None:
    """Start the server with `words`, and let `question` use it."""
    server = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "mcp", *words], env=Command(home).environment()
    )

    async def ask() -> None:
        with anyio.fail_after(200):
            async with Client(server) as client:
                await question(client)

    anyio.run(ask)


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """The text with which a tool fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.processes
def test_a_run_is_started_read_and_compared(torchdeck_home: Path, tmp_path: Path) -> None:
    """Start, list, show, logs, metrics, plan and check of a real run; what is wrong is said."""
    (tmp_path / "train.py").write_text(SCRIPT)
    file = tmp_path / "run.toml"
    file.write_text('name = "small"\n[run]\nscript = "train.py"\n[distributed]\nnproc = 1\n')
    command = Command(torchdeck_home)

    async def question(client: Client) -> None:
        before = await called(client, "list_runs")
        assert before == {"runs": []}
        preview = await called(client, "plan_run", run_file=str(file), changes=["distributed.nproc=2"])
        assert (preview["name"], preview["world_size"]) == ("small", 2)
        started = await called(client, "start_run", run_file=str(file))
        assert started["events"][-1]["id"] == command.the_run().root.name
        run = command.the_run()
        await anyio.to_thread.run_sync(
            lambda: wait_until(lambda: read_run(run).is_over, 120, "the end of the run")
        )
        (row,) = (await called(client, "list_runs", where="name = small"))["runs"]
        assert (row["id"], row["state"]) == (run.root.name, "SUCCEEDED")
        assert (await called(client, "show_run", run="small"))["state"] == "SUCCEEDED"
        lines = (await called(client, "read_logs", run="latest", tail=5, grep="hello"))["lines"]
        assert [line["text"] for line in lines] == ["hello of rank 0"]
        (one,) = (await called(client, "read_metric", run="latest", name="loss", last_step=3))["owners"]
        assert [(row["step"], row["value"]) for row in one["rows"]] == [(1, 999.0), (2, 998.0), (3, 997.0)]
        (one,) = (await called(client, "read_metric", run="latest", name="loss", points=10))["owners"]
        assert sum(part["rows"] for part in one["ranges"]) == 1000
        assert (one["ranges"][0]["high"], one["ranges"][-1]["low"]) == (999.0, 0.0)
        assert "has no metric 'los' (it has " in await refused(
            client, "read_metric", run="latest", name="los"
        )
        later = await called(client, "read_metric", run="latest", name="loss", first_step=5, last_step=4)
        assert later == {"owners": []}
        for change in ("run.env.PYTHONPATH=/tmp/evil", "run={env={A=1}}", "alerts.on=[]", "run.recipe=a.py"):
            text = await refused(client, "plan_run", run_file=str(file), changes=[change])
            assert "can be changed only in the run file" in text
        assert "none" in await refused(client, "show_run", run="none")
        assert "'--help' names no run or file" in await refused(client, "show_run", run="--help")

    asked(torchdeck_home, question, "--allow-start")


@pytest.mark.processes
def test_without_permission_nothing_is_started(torchdeck_home: Path) -> None:
    """The tools that start and stop are not offered, and all others are said to read only."""

    async def question(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert {"list_runs", "show_run", "read_logs", "check_run"} <= {tool.name for tool in tools}
        assert not {"start_run", "resume_run", "stop_run"} & {tool.name for tool in tools}
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
        assert all(tool.description for tool in tools)
        assert "start_run" in await refused(client, "start_run", run_file="run.toml")

    asked(torchdeck_home, question)


@pytest.mark.processes
def test_what_a_command_answers() -> None:
    """Its JSON values; its errors, if it ends with one."""
    (presets,) = answers(["init", "--list", "--json"], 60)
    assert "quickstart" in json.dumps(presets)
    with pytest.raises(CommandFailed, match=r"no_such_file\.toml"):
        answers(["check", "--json", "no_such_file.toml"], 60)
    with pytest.raises(CommandFailed, match="printed no JSON"):
        answers(["--version"], 60)
    with pytest.raises(CommandFailed, match="took longer than 0 s"):
        answers(["--version"], 0.001)
