"""torchrun's command line."""

import itertools

import pytest

from support.values.machines import PYTHON, config, node, plan
from torchdeck.contract.inventory import InterpreterFacts, major_minor


def flags(argv: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in itertools.pairwise(argv) if name.startswith("--")}


def test_one_node_meets_on_itself() -> None:
    """Static rendezvous on the loopback address, the port a slot, torchrun never restarting by itself."""
    argv = plan(config(distributed={"nproc": 2})).nodes[0].torchrun
    assert argv[:2] == ("/usr/bin/python3", "@{shipped}/torchdeck/distributed/torchrun.py")
    assert argv[-1] == "--no-python"
    assert flags(argv) | {"--nnodes": "1", "--nproc-per-node": "2", "--node-rank": "0"} == flags(argv)
    assert flags(argv)["--rdzv-backend"] == "static"
    assert flags(argv)["--master-addr"] == "127.0.0.1"
    assert flags(argv)["--master-port"] == "@{port}"
    assert flags(argv)["--max-restarts"] == "0"


def test_many_nodes_meet_on_the_first() -> None:
    """Every node has its own rank and count, and all the same meeting point."""
    made = plan(config(distributed={"nodes": ["b", "a"]}), node("a", gpus=1), node("b", gpus=3))
    seen = [flags(part.torchrun) for part in made.nodes]
    assert [part.name for part in made.nodes] == ["b", "a"]
    assert [given["--node-rank"] for given in seen] == ["0", "1"]
    assert [given["--nproc-per-node"] for given in seen] == ["3", "1"]
    assert {given["--master-addr"] for given in seen} == {"b.test"}


def test_a_fixed_port_is_no_slot() -> None:
    """A port in the config stands in the argv, and nothing is chosen at launch."""
    made = plan(config(distributed={"rendezvous": {"port": 29511}}))
    assert flags(made.nodes[0].torchrun)["--master-port"] == "29511"
    assert "port" not in made.slots


@pytest.mark.parametrize(
    ("torch", "signals", "shutdown"),
    [
        ("2.9.1", False, False),
        ("2.10.0", True, False),
        ("2.11.0+cu130", True, False),
        ("2.12.0", True, True),
        ("3.0.0a0+git12", True, True),
        (None, False, False),
        ("local", False, False),
    ],
)
def test_flags_follow_the_nodes_torch(torch: str | None, signals: bool, shutdown: bool) -> None:
    """A flag that the node's torch does not know is not given."""
    argv = plan(interpreter=InterpreterFacts("/p", "3.11.7", torch, None)).nodes[0].torchrun
    assert ("--signals-to-handle" in argv) == signals
    assert ("--shutdown-timeout" in argv) == shutdown
    assert not any("SIGHUP" in item for item in argv)


def test_versions_are_read_leniently() -> None:
    """Local and development versions count as what they lead to; nonsense as none."""
    assert [major_minor(text) for text in ("2.13.0+cpu", "2.14.0a0+git", "x", "2")] == [
        (2, 13),
        (2, 14),
        (0, 0),
        (0, 0),
    ]
    assert PYTHON.torch_version == (2, 13)


def test_torchrun_knows_every_flag_we_give() -> None:
    """The installed torchrun parses the argv to the meaning intended."""
    run = pytest.importorskip("torch.distributed.run")
    node_plan = (
        plan(config(distributed={"nproc": 2}))
        .filled(dict.fromkeys(("run_id", "run_dir", "attempt", "port", "resume", "shipped", "inside"), "7"))
        .nodes[0]
    )
    parsed = run.get_args_parser().parse_args(list(node_plan.argv[2:]))
    assert parsed.nproc_per_node == "2"
    assert parsed.master_port == 7
    assert parsed.no_python
    assert parsed.training_script == "/bin/sh"
    assert parsed.training_script_args == [*node_plan.rank_holder[1:], *node_plan.command]
    assert parsed.signals_to_handle == "SIGTERM,SIGINT,SIGQUIT"
