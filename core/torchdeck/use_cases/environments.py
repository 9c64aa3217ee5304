"""Python environments that a run could use: on this machine, and on its nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torchdeck.agent.environments.environment_files import EnvironmentSourceError, find_source
from torchdeck.agent.probe.environments import environments
from torchdeck.agent.probe.pythons import other_pythons
from torchdeck.nodes.interpreter import installed_version

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig
    from torchdeck.nodes.connector import Connector


class FoundEnvironment(NamedTuple):
    """One Python."""

    node: str
    """Empty: this machine."""
    executable: str
    python: str
    """Version; empty if unknown."""
    torch: str | None
    is_used: bool
    """Whether ranks on that node use it unless the run file names another."""


class FoundEnvironments(NamedTuple):
    """Pythons that ranks could use."""

    here: tuple[FoundEnvironment, ...]
    on_nodes: tuple[FoundEnvironment, ...]
    uv_source: str
    """File from which uv would make an environment; empty if there is none."""
    problems: tuple[str, ...]
    """Nodes that could not be searched, with the reason."""


def find_environments(folder: Path, config: RunConfig | None, connector: Connector) -> FoundEnvironments:
    """Search this machine and the nodes of a run; takes seconds. No environment is executed.

    Args:
        folder: working directory of the run.
        config: the run's; None if it is not valid, and no node is searched.
        connector: connects to its nodes.
    """
    try:
        uv_source = find_source(folder).name
    except EnvironmentSourceError:
        uv_source = ""
    answers = [] if config is None else list(_on_nodes(config, connector))
    return FoundEnvironments(
        tuple(_here(folder)),
        tuple(each for each in answers if isinstance(each, FoundEnvironment)),
        uv_source,
        tuple(each for each in answers if isinstance(each, str)),
    )


def _here(folder: Path) -> Iterator[FoundEnvironment]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield FoundEnvironment("", sys.executable, version, installed_version("torch"), is_used=True)
    seen = {sys.executable}
    for facts in (*environments(Path.home(), folder), *other_pythons()):
        if facts["executable"] not in seen:
            seen.add(facts["executable"])
            yield _from_facts("", facts)


def _on_nodes(config: RunConfig, connector: Connector) -> Iterator[FoundEnvironment | str]:
    from torchdeck.config.chosen_nodes import described_names, is_here_alone

    if is_here_alone(config):
        return
    from torchdeck.launching.facts.node_facts import chosen
    from torchdeck.nodes.probe.probing import Question, probe_nodes

    inventory = connector.node_inventory()
    names = chosen(config, inventory, frozenset(described_names(config)))
    entries = {name: inventory.nodes[name] for name in names if name in inventory.nodes}
    for probed in probe_nodes(entries, connector.connect, Question(others=True), connector.talking):
        if probed.facts is None:
            yield probed.error
        else:
            yield from (_from_facts(probed.node, each.model_dump()) for each in probed.facts.pythons)


def _from_facts(node: str, facts: dict[str, Any]) -> FoundEnvironment:
    return FoundEnvironment(
        node, facts["executable"], facts["version"], facts["torch"], is_used=bool(facts["chosen"])
    )


def place_of(found: FoundEnvironment) -> str:
    """Return `~/envs/torch` for `/home/me/envs/torch/bin/python`."""
    place, home = found.executable.removesuffix("/bin/python"), f"{Path.home()}/"
    return f"~/{place.removeprefix(home)}" if not found.node and place.startswith(home) else place


def versions_of(found: FoundEnvironment) -> str:
    """Return `Python 3.12.3, torch 2.10.0`."""
    python = f"Python {found.python}, " if found.python else ""
    return f"{python}{f'torch {found.torch}' if found.torch else 'no torch'}"
