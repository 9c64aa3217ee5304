"""Whether memory of this machine was taken or freed since it was looked at."""

from __future__ import annotations

import dataclasses

from support.values.previews import GIB, machines
from torchdeck.contract.inventory import Inventory, NodeInfo
from torchdeck_app.launch.preview.preview_service import has_local, has_moved


def seen(free: float, *, described: bool = False) -> Inventory:
    (node,) = machines(1, 1)
    device = dataclasses.replace(node.devices[0], free_bytes=int(free * GIB))
    return Inventory((dataclasses.replace(node, devices=(device,), described=described),))


def moved(before: Inventory, now: Inventory) -> bool:
    found = {node.name: node for node in now}

    def probe(name: str) -> NodeInfo:
        return found[name]

    return has_moved(before, probe)


def test_much_is_two_hundredths_of_a_device() -> None:
    assert moved(seen(70), seen(60))
    assert moved(seen(60), seen(70))
    assert not moved(seen(70), seen(70.5))


def test_devices_that_come_and_go_count() -> None:
    (node,) = seen(70)
    assert moved(seen(70), Inventory((dataclasses.replace(node, devices=()),)))


def test_machines_that_are_only_described_are_not_looked_at() -> None:
    described = seen(70, described=True)
    assert not has_local(described)
    assert not moved(described, Inventory(()))
    assert has_local(seen(70))
