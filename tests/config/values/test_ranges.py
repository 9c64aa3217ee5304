"""Ranges of ranks and nodes in a run file."""

from __future__ import annotations

from typing import Any

import pytest

from torchdeck.config.chosen_nodes import node_names, wanted
from torchdeck.config.loader import config_from_dict
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.values.numbers import CountRange, RangeError, parse_range

CLUSTER = {"nodes": [{"name": "gpu[0-2]", "gpus": 2, "gpu": "H100"}]}


def problem_of(cluster: dict[str, Any] | None = None, **distributed: Any) -> Problem:
    table = {
        "run": {"script": "a.py"},
        "distributed": distributed,
        "cluster": cluster or {},
        "launch": {"trusted_network": True},
    }
    with pytest.raises(ConfigError) as caught:
        config_from_dict(table, "/code")
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("3:2", '"3:2" has a minimum above its maximum', '"2:3"'),
        ("a:b", '"a:b" is not a range of counts', '"2:3"'),
        ("2", '"2" is not a range of counts', '"2:3"'),
        ("1:2:3", "is not a range of counts", '"2:3"'),
        ("-1:2", "is not a range of counts", '"2:3"'),
        ("0:2", '"0:2" allows zero ranks or nodes', '"1:2"'),
        ("1:5000", "goes beyond 4096", "at most 4096"),
    ],
)
@pytest.mark.parametrize("key", ["nproc", "nodes"])
def test_what_is_no_range_is_said(key: str, text: str, wrong: str, right: str) -> None:
    """What is wrong with it, and what would be right."""
    found = problem_of(None, **{key: text})
    assert found.path == f"distributed.{key}"
    assert wrong in found.wrong
    assert right in found.right


def test_a_range_is_its_ends() -> None:
    """Both included; they may be the same."""
    assert parse_range("2:3") == CountRange(2, 3)
    assert parse_range("2:2") == CountRange(2, 2)
    with pytest.raises(RangeError, match="not a range"):
        parse_range("2:３")


@pytest.mark.parametrize("key", ["nproc", "nodes"])
def test_one_process_is_no_range(key: str) -> None:
    """Strategy single cannot lose a rank."""
    found = problem_of(None, strategy="single", **{key: "1:1"})
    assert 'a range cannot be used with strategy = "single"' in found.wrong


def test_a_range_of_nodes_takes_the_machines_that_are_described() -> None:
    """At most so many, in their order; this machine where none is described; and enough of them."""

    def names(nodes: Any, cluster: dict[str, Any] | None = None) -> list[str]:
        table = {"run": {"script": "a.py"}, "distributed": {"nodes": nodes}, "cluster": cluster or {}}
        return node_names(config_from_dict(table, "/code"))

    assert names("1:2", CLUSTER) == ["gpu0", "gpu1"]
    assert names("2:9", CLUSTER) == ["gpu0", "gpu1", "gpu2"]
    assert names("1:2") == ["localhost"]
    assert names("2:3") == ["localhost"]  # the node inventory may know more
    assert "[cluster] describes 3" in problem_of(CLUSTER, nodes="4:5").wrong


def test_a_range_of_nodes_takes_its_spares_too() -> None:
    """So many more machines; a list is what it is."""
    table = {"run": {"script": "a.py"}, "distributed": {"nodes": "1:2", "spare": 1}, "cluster": CLUSTER}
    config = config_from_dict(table, "/code")
    assert node_names(config) == ["gpu0", "gpu1", "gpu2"]
    assert wanted(config.distributed, 3) == (1, 2)
    listed = {**table, "distributed": {"nodes": ["gpu[0-2]"], "spare": 1}}
    assert wanted(config_from_dict(listed, "/code").distributed, 3) == (2, 2)


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"strategy": "single"}, 'spare nodes cannot be used with strategy = "single"'),
        ({"rendezvous": {"backend": "c10d"}}, "numbers nodes in order of arrival"),
    ],
)
def test_where_no_node_can_replace_another(more: dict[str, Any], wrong: str) -> None:
    """One process has no node to lose; under c10d no place is known beforehand."""
    found = problem_of(spare=1, **more)
    assert found.path == "distributed.spare"
    assert wrong in found.wrong


def test_a_range_of_ranks_fits_the_devices() -> None:
    """The most of it, as it starts with these."""
    assert "3 ranks do not fit on 2 devices" in problem_of(nproc="1:3", devices=[0, 1]).wrong


def test_a_rank_that_hangs_may_be_given_up_without_a_restart() -> None:
    """on_hang = "restart" needs a restart that is allowed, or a range."""
    launch = {"on_hang": "restart", "max_restarts": 0}
    table = {"run": {"script": "a.py"}, "launch": launch, "distributed": {"nproc": "2:3"}}
    assert config_from_dict(table, "/code").launch.on_hang == "restart"
    with pytest.raises(ConfigError, match="no restart is allowed"):
        config_from_dict({**table, "distributed": {"nproc": 3}}, "/code")


def test_a_rank_that_hangs_can_only_be_left_out_of_a_range() -> None:
    """on_hang = "exclude" needs a range, or a spare node; no restart at the same size."""
    table: dict[str, Any] = {"run": {"script": "a.py"}, "launch": {"on_hang": "exclude"}}
    for able in ({"nproc": "2:3"}, {"nodes": "1:2"}):
        assert config_from_dict({**table, "distributed": able}, "/code").launch.on_hang == "exclude"
    with pytest.raises(ConfigError, match="no rank or node can be left out"):
        config_from_dict({**table, "distributed": {"nproc": 3}}, "/code")


def test_torchruns_own_rendezvous_asks_for_a_trusted_network() -> None:
    """It unpickles what it reads; the refusal says what that means and what to set."""
    table: dict[str, Any] = {
        "run": {"script": "a.py"},
        "distributed": {"rendezvous": {"backend": "c10d"}},
    }
    with pytest.raises(ConfigError) as refused:
        config_from_dict(table, "/code")
    [problem] = refused.value.problems
    assert problem.path == "distributed.rendezvous.backend"
    assert "started only if every address of the network is trusted" in problem.wrong
    assert problem.right == 'backend = "static", or launch.trusted_network = true'
    trusting = config_from_dict({**table, "launch": {"trusted_network": True}}, "/code")
    assert trusting.distributed.rendezvous.backend == "c10d"
