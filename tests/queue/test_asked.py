"""From run files and options to what a run asks for, and back to a run file with devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.queue.asked import ALL, ask_of, bindings, needs_machines
from torchdeck.queue.entry import DeviceOptions
from torchdeck.queue.scheduling.ask import Ask, Place
from torchdeck.queue.state import QueueError

HERE = ("localhost",)


def config(**distributed: Any) -> RunConfig:
    return config_from_dict({"run": {"script": "train.py"}, "distributed": distributed}, Path("/srv"))


@pytest.mark.parametrize(
    ("distributed", "options", "ask"),
    [
        ({}, DeviceOptions(), Ask(HERE, ALL, None, or_cpu=True)),
        ({"nproc": 2}, DeviceOptions(), Ask(HERE, ALL, 2, or_cpu=True)),
        ({"nproc": "1:3"}, DeviceOptions(), Ask(HERE, ALL, 3, or_cpu=True)),
        ({"strategy": "single"}, DeviceOptions(), Ask(HERE, ALL, 1, or_cpu=True)),
        ({"devices": "cpu", "nproc": 2}, DeviceOptions(), Ask(HERE, ALL, 0)),
        ({"devices": [1, 3]}, DeviceOptions(), Ask(HERE, ALL, 2, named=(1, 3))),
        ({"nodes": ["gpu[0-1]"]}, DeviceOptions(2), Ask(("gpu0", "gpu1"), ALL, 2)),
        ({"nodes": "1:2", "spare": 1}, DeviceOptions(), Ask(("1:3",), ALL, None, or_cpu=True)),
        ({}, DeviceOptions(4, "H100", nodes="any"), Ask(("any",), 1, 4, "H100")),
        ({}, DeviceOptions(1, memory=80, nodes="tag:fast:2"), Ask(("tag:fast",), 2, 1, "", 80)),
        ({}, DeviceOptions(1, nodes="lab, gpu7"), Ask(("lab", "gpu7"), ALL, 1)),
    ],
)
def test_a_run_asks_for(distributed: dict[str, Any], options: DeviceOptions, ask: Ask) -> None:
    assert ask_of(config(**distributed), options) == ask


def test_a_kind_of_gpu_contradicts_the_cpu() -> None:
    with pytest.raises(QueueError, match="uses no GPU"):
        ask_of(config(devices="cpu"), DeviceOptions(model="H100"))


def test_described_machines_cannot_be_queued_for() -> None:
    described = {"run": {"script": "a.py"}, "cluster": {"nodes": [{"name": "a"}]}}
    with pytest.raises(QueueError, match="for planning"):
        ask_of(config_from_dict(described, Path("/srv")), DeviceOptions())


@pytest.mark.parametrize(
    ("ask", "places", "overrides"),
    [
        (Ask(("any",), 2, 2), [("a", (1, 2)), ("b", (1, 2))], ['nodes=["a", "b"]', "devices=[1, 2]"]),
        (Ask(HERE, ALL, 2, or_cpu=True), [("localhost", ())], ['nodes=["localhost"]']),
        (Ask(HERE, ALL, 0), [("localhost", ())], ['nodes=["localhost"]', 'devices="cpu"']),
        (Ask(HERE, ALL, None), [("localhost", (0, 1))], ['nodes=["localhost"]']),
        (Ask(HERE, ALL, 1, named=("GPU-1",)), [("localhost", (3,))], ['nodes=["localhost"]']),
        (Ask(("1:2",), ALL, 1), [("a", (3,)), ("b", (3,))], ["devices=[3]"]),
    ],
)
def test_places_become_overrides(
    ask: Ask, places: list[tuple[str, tuple[int, ...]]], overrides: list[str]
) -> None:
    found = bindings(ask, tuple(Place(node, gpus) for node, gpus in places))
    assert [each.removeprefix("distributed.") for each in found] == overrides


def test_machines_are_asked_only_if_something_is_chosen() -> None:
    assert not needs_machines(ask_of(config(), DeviceOptions()))
    assert not needs_machines(ask_of(config(devices=[0]), DeviceOptions()))
    assert needs_machines(ask_of(config(), DeviceOptions(nodes="any")))
    assert needs_machines(ask_of(config(nproc=2), DeviceOptions()))
