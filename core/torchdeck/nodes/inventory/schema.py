"""What nodes.toml may say of a node, and of a group of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from torchdeck.config.fields import Section, option

INVENTORY_VERSION = 1
DeviceIndex = Annotated[int, Field(ge=0, le=1023)]
Word = Annotated[str, Field(min_length=1)]
ABSOLUTE = r"^(/|~$|~/)"
"""What paths on a node begin with: nobody could say what a relative one is relative to."""
RIGHT_PATH = 'an absolute path on the node, or one that begins with "~/"'


class NodeEntry(Section):
    """One node: how to reach it, which Python it has, and what of it may be used."""

    address: str = option(
        "Host name or address that SSH connects to, or a Host of ~/.ssh/config.",
        default=...,
        min_length=1,
        pattern=r"^[^\s@/-][^\s@/]*$",
        right='a host name or address, such as "10.0.0.5"; user and port have keys of their own',
    )
    port: int | None = option(
        "Port of its sshd; absent: what ~/.ssh/config says, else 22.", default=None, ge=1, le=65535
    )
    user: str | None = option(
        "User to log in as; absent: what ~/.ssh/config says, else yours here.",
        default=None,
        pattern=r"^[^\s@:-][^\s@:]*$",
        right='a user\'s name, such as "root"',
    )
    key: str | None = option(
        "Private key on this machine; absent: agent, ~/.ssh/config, and the usual names in ~/.ssh.",
        default=None,
        pattern=ABSOLUTE,
        right='an absolute path on this machine, or one that begins with "~/"',
    )
    jump: list[Word] = option(
        "Hosts to go through, the first one first: names of nodes, or [USER@]HOST[:PORT].",
        default=[],
        right='a list, such as ["gateway", "root@10.0.0.1:2222"]',
    )
    python: str | None = option(
        "Its Python: a path, or a name on its PATH; absent: python3.",
        default=None,
        min_length=1,
        right='a path on the node such as "/opt/python/bin/python3", or a name such as "python3.12"',
    )
    venv: str | None = option(
        "Virtual environment on it whose Python is used.", default=None, pattern=ABSOLUTE, right=RIGHT_PATH
    )
    conda: str | None = option(
        "Conda environment on it that is activated: a name, or a path.",
        default=None,
        min_length=1,
        right='the name of an environment, such as "torch", or its absolute path',
    )
    activate: str | None = option(
        "Script on it that is sourced before Python starts.",
        default=None,
        pattern=ABSOLUTE,
        right=RIGHT_PATH,
    )
    home: str | None = option(
        "Where Torchdeck keeps its files on it; absent: its TORCHDECK_HOME, else the usual place.",
        default=None,
        pattern=ABSOLUTE,
        right=RIGHT_PATH,
    )
    working_dir: str | None = option(
        "Folder on it that runs start in; absent: the run's own copy of the code.",
        default=None,
        pattern=ABSOLUTE,
        right=RIGHT_PATH,
    )
    devices: list[DeviceIndex] | None = option(
        "GPUs that may be used, by index; absent: all.",
        default=None,
        right="a list of indices, each once, such as [0, 1]",
    )
    interface: str | None = option(
        "Network interface for training; absent: the one that the route to the other nodes takes.",
        default=None,
        min_length=1,
        max_length=15,
        pattern=r"^[^\s/]+$",
        right='the name of an interface, such as "eth0"',
    )
    training_address: str | None = option(
        "What the other nodes reach it by for training; absent: the address on its interface.",
        default=None,
        min_length=1,
        pattern=r"^[^\s@/]+$",
        right='a host name or address, such as "192.168.7.5"',
    )
    max_ranks: int | None = option(
        "Most ranks that a run may start on it; absent: one for each device.",
        default=None,
        unit="ranks",
        ge=1,
        le=1024,
    )
    tags: list[Word] = option(
        'Words to choose it by: "tag:fast" names all nodes that have the tag "fast".',
        default=[],
        right='a list of words, such as ["fast", "lab"]',
    )


class NodeGroup(Section):
    """Several nodes under one name."""

    nodes: list[Word] = option(
        'Its nodes: names, ranges such as "gpu[0-3]", other groups, "tag:" and a tag.',
        default=...,
        min_length=1,
        right='a list of names, such as ["gpu0", "gpu1"]',
    )


class NodeInventory(Section):
    """All nodes and groups that the user has written down."""

    version: int = option("Version of the format.", default=INVENTORY_VERSION, ge=1)
    nodes: dict[str, NodeEntry] = option("Nodes by name.", default={}, right="tables [nodes.NAME]")
    groups: dict[str, NodeGroup] = option("Groups by name.", default={}, right="tables [groups.NAME]")
