"""A node that is reached, and whose Python is not what the node inventory says: why, and what helps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit

from support.hosts.hosts import TestHosts
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.probing import probe_nodes

WRONG = {
    "venv": ("/nope/env", "/nope/env/bin/python"),
    "python": ("/nope/python3", "/nope/python3"),
    "activate": ("/nope/activate", "/nope/activate"),
    "conda": ("nobody", "no conda was found"),
}


def test_what_the_shell_says_of_a_wrong_python_is_told_with_the_key_that_mends_it(
    hosts: Callable[..., TestHosts], torchdeck_home: Path
) -> None:
    made = hosts(1)
    made.trust(torchdeck_home)
    given: dict[str, dict[str, Any]] = {}
    for key, (value, _) in WRONG.items():
        given[key] = {name: old for name, old in made.entry(1).items() if name not in WRONG} | {key: value}
    inventory_path(torchdeck_home).write_text(tomlkit.dumps({"version": 1, "nodes": given}))
    entries = {name: NodeEntry.model_validate(entry) for name, entry in given.items()}
    found = {probed.node: probed for probed in probe_nodes(entries, Connector(torchdeck_home).connect)}
    for key, (_, said) in WRONG.items():
        assert found[key].facts is None
        assert f"node {key}: its Python ended without an answer: " in found[key].error
        assert said in found[key].error
        assert f"`torchdeck nodes edit {key} --{key} …`" in found[key].fix
