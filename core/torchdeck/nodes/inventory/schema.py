"""Schema of nodes.toml for a node and a group of nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from torchdeck.options import Section, option

INVENTORY_VERSION = 1
DeviceIndex = Annotated[int, Field(ge=0, le=1023)]
Word = Annotated[str, Field(min_length=1)]
UserName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=64)]
ABSOLUTE = r"^(/|~$|~/)"
"""Valid beginnings of paths on a node: a relative path would have no defined base."""
RIGHT_PATH = 'an absolute path on the node, or one that begins with "~/"'


class NodeEntry(Section):
    """One node: its connection, its Python, and which of its resources may be used."""

    address: str = option(
        "Host name or address that SSH connects to, or a Host of ~/.ssh/config.",
        default=...,
        min_length=1,
        pattern=r"^[^\s@/-][^\s@/]*$",
        right='a host name or address, such as "10.0.0.5"; user and port have keys of their own',
    )
    port: int | None = option(
        "Port of its sshd. Default: that of ~/.ssh/config, else 22.", default=None, ge=1, le=65535
    )
    user: str | None = option(
        "User to log in as. Default: that of ~/.ssh/config, else yours here.",
        default=None,
        pattern=r"^[^\s@:-][^\s@:]*$",
        right='a user\'s name, such as "root"',
    )
    key: str | None = option(
        "Private key on this machine. Default: SSH agent, ~/.ssh/config, usual names in ~/.ssh.",
        default=None,
        pattern=ABSOLUTE,
        right='an absolute path on this machine, or one that begins with "~/"',
    )
    jump: list[Word] = option(
        "Jump hosts, in order: names of nodes, or [USER@]HOST[:PORT].",
        default=[],
        right='a list, such as ["gateway", "root@10.0.0.1:2222"]',
    )
    python: str | None = option(
        "Python of the node: a path, or a name on its PATH. Default: python3.",
        default=None,
        min_length=1,
        right='a path on the node such as "/opt/python/bin/python3", or a name such as "python3.12"',
    )
    venv: str | None = option(
        "Virtual environment on the node whose Python is used.",
        default=None,
        pattern=ABSOLUTE,
        right=RIGHT_PATH,
    )
    conda: str | None = option(
        "Conda environment on the node to activate: a name, or a path.",
        default=None,
        min_length=1,
        right='the name of an environment, such as "torch", or its absolute path',
    )
    activate: str | None = option(
        "Script on the node that is sourced before Python starts.",
        default=None,
        pattern=ABSOLUTE,
        right=RIGHT_PATH,
    )
    trusted_owners: list[UserName] = option(
        "Users on the node, besides you and root, whose Python, conda or activation script may run there.",
        default=[],
        right='a list of user names, such as ["easybuild"]',
    )
    home: str | None = option(
        "Folder of Torchdeck's files on the node. Default: its TORCHDECK_HOME, else the user data folder.",
        default=None,
        pattern=ABSOLUTE,
        right=RIGHT_PATH,
    )
    working_dir: str | None = option(
        "Folder on the node in which runs start. Default: the run's own copy of the code.",
        default=None,
        pattern=ABSOLUTE,
        right=RIGHT_PATH,
    )
    devices: list[DeviceIndex] | None = option(
        "Indices of GPUs that may be used. Default: all.",
        default=None,
        right="a list of indices, each once, such as [0, 1]",
    )
    interface: str | None = option(
        "Network interface for training. Default: that of the route to the other nodes.",
        default=None,
        min_length=1,
        max_length=15,
        pattern=r"^[^\s/]+$",
        right='the name of an interface, such as "eth0"',
    )
    training_address: str | None = option(
        "Address at which the other nodes reach it for training. Default: the address of its interface.",
        default=None,
        min_length=1,
        pattern=r"^[^\s@/]+$",
        right='a host name or address, such as "192.168.7.5"',
    )
    max_ranks: int | None = option(
        "Maximum number of ranks of a run on the node. Default: one per device.",
        default=None,
        unit="ranks",
        ge=1,
        le=1024,
    )
    tags: list[Word] = option(
        'Tags to select it by: "tag:fast" selects all nodes with the tag "fast".',
        default=[],
        right='a list of words, such as ["fast", "lab"]',
    )


class NodeGroup(Section):
    """Several nodes under one name."""

    nodes: list[Word] = option(
        'Nodes of the group: names, ranges such as "gpu[0-3]", other groups, or "tag:" and a tag.',
        default=...,
        min_length=1,
        right='a list of names, such as ["gpu0", "gpu1"]',
    )


class NodeInventory(Section):
    """All nodes and groups configured by the user."""

    version: int = option("Version of the format.", default=INVENTORY_VERSION, ge=1)
    nodes: dict[str, NodeEntry] = option("Nodes by name.", default={}, right="tables [nodes.NAME]")
    groups: dict[str, NodeGroup] = option("Groups by name.", default={}, right="tables [groups.NAME]")
