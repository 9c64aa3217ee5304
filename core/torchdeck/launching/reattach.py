"""Reattaches to a run from another machine: builds a run directory here from the data on its nodes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import JournalWriter, reader_of_node
from torchdeck.contract.layout import RUN_ID, Home, RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.control.connected_nodes import ConnectedNodes, NodesNotKnownError
from torchdeck.launching.launcher import journal_created
from torchdeck.launching.remote.link import NodeLink
from torchdeck.launching.remote.transport import SshTransport
from torchdeck.launching.runtime_bundle import BundleError, ship
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.probe.opening import open_probe_session
from torchdeck.nodes.probe.probe_session import ProbeError
from torchdeck.nodes.probe.remote_files import RemoteFiles, RemoteRuns
from torchdeck.nodes.ssh.errors import SshError
from torchdeck.runs.links import NEEDS_LOGIN, REFUSED, UP

LIMIT = 20.0
"""Seconds for the queried node to answer."""
LEADER_LIMIT = 60.0
"""Seconds for the link to the leader to be up, without which nothing is known of the run."""
OTHERS_LIMIT = 10.0
"""Further seconds for the other nodes, which a controller keeps trying."""
CATCH_UP_LIMIT = 600.0
PLAN_LIMIT = 64 * 2**20
"""Maximum size in bytes of a plan, which names every file of the user's code."""
LATEST = "latest"
_POLL = 0.05
_FROZEN = "# The run file stayed on the machine that started this run; plan.json has what it resolved to.\n"

_BEGINS = ("launching", "attempt_started")
"""An agent that only returns after the end does not begin another session of the run."""

OnNews = Callable[[str], None]
Check = Callable[[], None]


class ReattachError(Refusal):
    """The run cannot be attached to from here; the message gives the reason and a remedy."""

    page = "machines#during-the-run"


class Reattached(NamedTuple):
    """A run that is now available here."""

    layout: RunLayout
    unreached: Mapping[str, str]
    """Node → why none of its data is here yet."""


def reattach(
    connector: Connector,
    node: str,
    asked: str,
    on_news: OnNews = lambda _text: None,
    check: Check = lambda: None,
) -> Reattached:
    """Build the directory of a run here from the data on its nodes. An existing one is left unchanged.

    Args:
        connector: connector for nodes; the run is stored in its home.
        node: any node of the run, in the node inventory.
        asked: the run's id, a prefix of it, its name, or `latest`.
        on_news: called with what is being waited for.
        check: called repeatedly; an exception from it ends the wait, and leaves nothing here.

    Raises:
        ReattachError: there is no such run there, or this machine cannot reach its leader.
        ConfigError, SshError, ProbeError, BundleError, OSError: see their messages.
    """
    entry = connector.node_inventory().nodes[node]
    with open_probe_session(node, entry, connector.connect, LIMIT) as probe_session:
        files = RemoteFiles(probe_session, node)
        runs = files.runs(entry.home)
        run_id = _named(node, runs, asked)
        layout = Home(connector.home).run(run_id)
        if layout.journal.exists():
            return Reattached(layout, {})
        content = files.content(f"{runs.folder}/{run_id}/plan.json", PLAN_LIMIT)
    check()
    plan = _plan(node, content)
    _check_nodes(plan, frozenset(connector.node_inventory().nodes))
    return _made(connector, layout, plan, content, on_news, check)


def _named(node: str, runs: RemoteRuns, asked: str) -> str:
    ids = [run_id for run_id in runs.ids if RUN_ID.fullmatch(run_id)]
    if asked in ids:
        return asked
    fitting = ids[-1:] if asked == LATEST else [run_id for run_id in ids if run_id.startswith(asked)]
    # an id has the run's name between the time and the random suffix
    fitting = fitting or [run_id for run_id in ids if run_id[17:-7] == asked]
    if len(fitting) == 1:
        return fitting[0]
    newest = ", ".join(reversed(ids[-4:])) or "none"
    many = f"{len(fitting)} runs match {asked!r} on" if fitting else f"there is no run {asked!r} on"
    raise ReattachError(f"{many} node {node} ({runs.folder}); the newest there: {newest}")


def _plan(node: str, content: bytes) -> LaunchPlan:
    try:
        return LaunchPlan.from_json(parse_json(content))
    except (PlanFormatError, JsonError) as error:
        raise ReattachError(f"the run's plan on node {node} cannot be read: {error}") from error


def _check_nodes(plan: LaunchPlan, known: frozenset[str]) -> None:
    names = [node.name for node in plan.all_nodes]
    if LOCALHOST in names:
        raise ReattachError(
            "the machine that started this run takes part in it itself, as localhost",
            fix="attach there",
        )
    missing = [name for name in names if name not in known]
    if missing:
        raise ReattachError(
            f"the run's node {missing[0]} is not in the node inventory here",
            fix=f"`torchdeck nodes add {missing[0]} ADDRESS`",
        )


def _made(
    connector: Connector, layout: RunLayout, plan: LaunchPlan, content: bytes, on_news: OnNews, check: Check
) -> Reattached:
    """Create the directory completely, or not at all: without `created` in its journal there is no run."""
    shipped = ship(connector.home)
    layout.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        layout.root.mkdir(mode=0o700)
    except FileExistsError as error:
        raise ReattachError(f"{layout.root} exists but is not a run", fix="remove it first") from error
    try:
        for folder in (layout.control, layout.nodes, layout.attempts):
            folder.mkdir(mode=0o700)
        write_bytes(layout.plan, content, durable=False, private=True)
        write_bytes(layout.config, _FROZEN.encode(), durable=False, private=True)
        unreached = _mirror(connector, layout, plan, shipped, on_news, check)
        _write_journal(layout, plan, shipped)
    except BaseException:
        shutil.rmtree(layout.root, ignore_errors=True)
        raise
    return Reattached(layout, unreached)


def _mirror(
    connector: Connector, layout: RunLayout, plan: LaunchPlan, shipped: Path, on_news: OnNews, check: Check
) -> dict[str, str]:
    """Fetch all data from the nodes: a controller without it would restart the run from the beginning."""
    try:
        nodes = ConnectedNodes(layout, plan, shipped, connector.credentials.to_json())
    except NodesNotKnownError as error:
        raise ReattachError(error.finding, fix=error.fix, page=error.page) from error
    nodes.start()
    try:
        leader, *others = [each for each in nodes.transports if isinstance(each, SshTransport)]
        on_news(f"connecting to {leader.node}, the leader of the run")
        why = _wait_up([leader], LEADER_LIMIT, check)
        if why:
            raise ReattachError(
                f"node {leader.node} is the leader of the run, and cannot be reached: {why[leader.node]}"
            )
        unreached = _wait_up(others, OTHERS_LIMIT, check)
        for each in (leader, *(other for other in others if other.node not in unreached)):
            on_news(f"copying files from node {each.node}")
            if not _caught_up(each.link, check):
                if each is leader:
                    raise ReattachError(
                        f"node {leader.node} is the leader of the run, and the connection to it broke",
                        fix="try again",
                    )
                unreached[each.node] = "the link to it broke"
        return unreached
    finally:
        nodes.let_go()


def _caught_up(link: NodeLink, check: Check) -> bool:
    """Return whether all data of the node is here now; if `check` raises, the link is abandoned."""
    with ThreadPoolExecutor(1) as other:
        done = other.submit(link.catch_up, CATCH_UP_LIMIT)
        try:
            while not done.done():
                check()
                wait([done], _POLL)
        except BaseException:
            link.close()  # otherwise it would be waited for until its end
            raise
        return done.result()


def _wait_up(transports: Sequence[SshTransport], limit: float, check: Check) -> dict[str, str]:
    """Return the transports whose link is not up in time, or needs a user, with the reason."""
    until = time.monotonic() + limit
    waiting = list(transports)
    given_up: dict[str, str] = {}
    while waiting and time.monotonic() < until:
        check()
        for each in list(waiting):
            state = each.link.state
            if state.state in (UP, NEEDS_LOGIN, REFUSED):
                waiting.remove(each)
            if state.state in (NEEDS_LOGIN, REFUSED):
                given_up[each.node] = state.why
        time.sleep(_POLL)
    return {**given_up, **{each.node: each.unreached or f"no link within {limit:.0f} s" for each in waiting}}


def _write_journal(layout: RunLayout, plan: LaunchPlan, shipped: Path) -> None:
    """Write the events that a launcher and earlier controllers would have written."""
    with JournalWriter(layout.journal) as journal:
        journal_created(journal, layout.root.name, plan, shipped, source="", overrides=[], reattached=True)
        for finished in _resumes(layout, plan.nodes[0].name):
            journal.append("resumed", finished=finished, origin="another machine")


def _resumes(layout: RunLayout, leader: str) -> list[int]:
    """Return how many times the run had finished at each resume."""
    finishes, resumes = 0, []
    for event in reader_of_node(layout.node(leader)).read_new():
        if event.name == "finished":
            finishes += 1
        elif event.name in _BEGINS and finishes and finishes not in resumes:
            resumes.append(finishes)
    return resumes


__all__ = ["BundleError", "ProbeError", "ReattachError", "Reattached", "SshError", "reattach"]
