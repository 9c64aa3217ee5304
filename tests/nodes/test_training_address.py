"""Which address and interface of a node its ranks are reached by."""

import pytest

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import Cpu, Gpus, Interface, Memory, NodeFacts, OwnName, Route, System
from torchdeck.nodes.training_address import TrainingAddressError, training_address

INTERFACES = (
    Interface(name="lo", addresses=("127.0.0.1", "::1"), up=True, speed=None),
    Interface(name="eth0", addresses=("fd00::5", "10.0.0.5"), up=True, speed=1000),
    Interface(name="ib0", addresses=("192.168.0.5",), up=True, speed=200_000),
    Interface(name="down0", addresses=(), up=False, speed=None),
)


def facts(*routes: Route) -> NodeFacts:
    """A node with these ways to its peers."""
    return NodeFacts(
        time=0.0,
        home="/h",
        system=System(host="a", os="", kernel="", machine="", boot="", user=""),
        cpu=Cpu(cores=1, usable=1, model="", load=0.0),
        memory=Memory(total=1, free=1, shm_total=1, shm_free=1),
        disks=(),
        gpu=Gpus(devices=(), driver="", cuda="", error=""),
        pythons=(),
        interfaces=INTERFACES,
        routes=routes,
        own_name=OwnName(name="a", resolves=True, slow=False, seconds=0.0, error=""),
        runs=(),
        kills_after_logout=False,
    )


def route(interface: str, address: str, error: str = "") -> Route:
    return Route(peer="p", interface=interface, address=address, error=error)


LOOP = route("lo", "127.0.0.1")
ETH = route("eth0", "10.0.0.5")
IB = route("ib0", "192.168.0.5")
NONE = route("", "", "Network is unreachable")


@pytest.mark.parametrize(
    ("entry", "routes", "found"),
    [
        ({}, [ETH], ("10.0.0.5", "eth0")),
        ({}, [LOOP, NONE, IB], ("192.168.0.5", "ib0")),
        ({}, [ETH, IB, IB], ("192.168.0.5", "ib0")),
        ({}, [ETH, IB], ("10.0.0.5", "eth0")),
        ({"interface": "eth0"}, [IB], ("10.0.0.5", "eth0")),
        ({"training_address": "192.168.0.5"}, [ETH], ("192.168.0.5", "ib0")),
        ({"training_address": "a.cluster"}, [ETH], ("a.cluster", "")),
        ({"training_address": "a.cluster", "interface": "ib0"}, [], ("a.cluster", "ib0")),
    ],
)
def test_the_book_wins_then_the_kernel(
    entry: dict[str, str], routes: list[Route], found: tuple[str, str]
) -> None:
    """What the user wrote, else the way to most peers; an IPv4 address before an IPv6 one."""
    assert training_address("a", NodeEntry.model_validate({"address": "a", **entry}), facts(*routes)) == found


@pytest.mark.parametrize(
    ("entry", "routes", "said"),
    [
        ({}, [], "has no route"),
        ({}, [LOOP], "has no route"),
        ({}, [NONE], "Network is unreachable"),
        ({"interface": "eth9"}, [ETH], "has no interface 'eth9': it has down0, eth0, ib0, lo"),
        ({"interface": "down0"}, [ETH], "has no address"),
    ],
)
def test_what_cannot_be_is_said(entry: dict[str, str], routes: list[Route], said: str) -> None:
    """With the node's name, and what there is."""
    with pytest.raises(TrainingAddressError, match=said) as error:
        training_address("a", NodeEntry.model_validate({"address": "a", **entry}), facts(*routes))
    assert "node a" in str(error.value)


@pytest.mark.parametrize("said", ["$(id)", "-h", "10.0.0.5;id", "a b", "a\u202eb"])
def test_what_a_node_says_is_no_address_is_refused(said: str) -> None:
    """It would stand in command lines and variables of all nodes."""
    for told in (route("eth0", said), route(said, "10.0.0.5")):
        with pytest.raises(TrainingAddressError, match="neither an address nor an interface"):
            training_address("a", NodeEntry(address="a"), facts(told))
