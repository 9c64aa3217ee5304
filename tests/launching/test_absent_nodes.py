"""Which nodes a run begins without, by what they said of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from support.values.node_facts import node_facts
from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import AbsentNode
from torchdeck.launching.facts.node_facts import planned_nodes, probe_all_nodes, without_absent
from torchdeck.launching.facts.probed_nodes import NodeReport
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.nodes.probe.probing import Probed
from torchdeck.nodes.ssh.host_keys import Verdict

NAMES = ("n1", "n2", "n3", "n4")
NODE_INVENTORY = NodeInventory.model_validate(
    {"nodes": {name: {"address": f"10.0.0.{name[1]}"} for name in NAMES}}
)


def asked(**distributed: Any) -> RunConfig:
    return config_from_dict({"run": {"script": "a.py"}, "distributed": distributed}, "/code")


def surveyed(**silent: Probed) -> NodeReport:
    """Four nodes, of which those that are named said something else than what they have."""
    probed = {}
    for name in NAMES:
        address = f"10.0.0.{name[1]}"
        interfaces = [{"name": "eth0", "addresses": [address], "up": True, "speed": 1000}]
        routes = [{"peer": "10.0.0.9", "interface": "eth0", "address": address, "error": ""}]
        probed[name] = silent.get(
            name, Probed(name, 0.1, node_facts(name, interfaces=interfaces, routes=routes))
        )
    return probe_all_nodes(NAMES, NODE_INVENTORY, probed)


def off(name: str) -> Probed:
    return Probed(name, 12.0, error=f"node {name}: no one answers")


@pytest.mark.parametrize(
    ("distributed", "spares", "placeholders"),
    [
        ({"nodes": "2:4"}, 0, ("n2",)),
        ({"nodes": "2:3", "spare": 1}, 0, ()),
        ({"nodes": "2:2", "spare": 2}, 1, ()),
        ({"nodes": list(NAMES), "spare": 1}, 0, ()),
        ({"nodes": list(NAMES), "spare": 2}, 1, ()),
    ],
)
def test_a_node_that_does_not_answer_is_absent(
    distributed: dict[str, Any], spares: int, placeholders: tuple[str, ...]
) -> None:
    """Spares make up for it first; a placeholder where the range continues with fewer."""
    config = asked(**distributed)
    left = without_absent(config, surveyed(n2=off("n2")))
    assert left.names == ("n1", "n3", "n4")
    assert left.absent == (AbsentNode("n2", "no one answers"),)
    assert (left.faults, list(left.probed)) == ((), ["n1", "n3", "n4"])
    of = planned_nodes(config, left, Inventory(left.nodes), left.interpreters)
    assert (of.config.distributed.spare, of.missing) == (spares, placeholders)
    assert {node.name for node in of.inventory} == {"n1", "n3", "n4", *placeholders}
    assert set(placeholders) <= of.interpreters.keys()


@pytest.mark.parametrize(
    ("distributed", "silent"),
    [
        ({"nodes": list(NAMES)}, {"n2": off("n2")}),
        ({"nodes": "3:4"}, {"n2": off("n2"), "n3": off("n3")}),
        ({"nodes": list(NAMES), "spare": 1}, {"n2": off("n2"), "n3": off("n3")}),
        ({"nodes": "1:4"}, {name: off(name) for name in NAMES}),
        ({"nodes": "1:4"}, {"n2": Probed("n2", 0.1, error="another key", host_key=Verdict.CHANGED)}),
        ({"nodes": "1:4"}, {"n2": Probed("n2", 0.1, error="no Python", fix="name another")}),
    ],
)
def test_what_stays_in_the_way(distributed: dict[str, Any], silent: dict[str, Probed]) -> None:
    """Too few answer, or a node answers and is not as it should be: each is a fault, as without a range."""
    left = without_absent(asked(**distributed), surveyed(**silent))
    assert left.absent == ()
    assert {fault.node for fault in left.faults} == silent.keys()
