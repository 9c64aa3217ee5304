"""Machines that a run file describes: what may be said of them, and what goes wrong."""

from pathlib import Path

import pytest

from support.values.run_files import MINIMAL, load, only_problem, problems
from torchdeck.config.documentation import UnknownKeyError, explain, facts, json_schema, reference
from torchdeck.config.schema import RunConfig

CLUSTER = """
[cluster]
inter_node = "400Gbit/s"

[[cluster.nodes]]
name = "gpu[00-03]"
gpus = 8
gpu = "H100"

[[cluster.nodes]]
name = "old[1-2]"
gpus = 4
memory = "32GiB"
"""
WHOLE = MINIMAL + CLUSTER


def loaded(folder: Path, *overrides: str, text: str = WHOLE) -> RunConfig:
    return load(folder, text, *overrides)


def test_all_described_machines_are_the_runs(tmp_path: Path) -> None:
    """In the order of the file, one by one."""
    config = loaded(tmp_path)
    assert config.distributed.nodes == ["gpu00", "gpu01", "gpu02", "gpu03", "old1", "old2"]
    assert config.cluster.inter_node == 50 * 10**9
    assert config.cluster.nodes[1].memory == 32 * 2**30


def test_some_of_them_by_name_or_range(tmp_path: Path) -> None:
    """What distributed.nodes names, in its order."""
    named = loaded(tmp_path, 'distributed.nodes=["old2", "gpu[01-02]"]')
    assert named.distributed.nodes == ["old2", "gpu01", "gpu02"]
    assert loaded(tmp_path, 'distributed.nodes=["localhost"]').distributed.nodes == ["localhost"]


def test_without_a_cluster_it_is_this_machine(tmp_path: Path) -> None:
    """Ranges are expanded all the same."""
    assert load(tmp_path, MINIMAL).distributed.nodes == ["localhost"]
    assert load(tmp_path, MINIMAL, 'distributed.nodes=["a[1-2]"]').distributed.nodes == ["a1", "a2"]


def test_a_base_file_may_describe_the_cluster(tmp_path: Path) -> None:
    """One file for the machines, one for each run."""
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    config = load(tmp_path, f'extends = "cluster.toml"\n{MINIMAL}')
    assert len(config.distributed.nodes) == 6


@pytest.mark.parametrize(
    ("old", "new", "path", "line", "wrong", "right"),
    [
        ("gpu[00-03]", "gpu[00-03", "cluster.nodes[0].name", 11, "brackets", "gpu[000-127]"),
        ("gpu[00-03]", "gpu[3-0]", "cluster.nodes[0].name", 11, "descending range", "gpu[000-127]"),
        ('"old[1-2]"', '"gpu01"', "cluster.nodes[1].name", 16, '"gpu01" is described twice', "once"),
        ('"old[1-2]"', '"localhost"', "cluster.nodes[1].name", 16, "not described", "localhost"),
        ('"H100"', '"H1000"', "cluster.nodes[0].gpu", 13, 'memory of GPU "H1000" is unknown', '"H100"'),
        ('"H100"', '"A100"', "cluster.nodes[0].gpu", 13, "unknown", "A100-80GB"),
        ("gpus = 8", "gpus = 0", "cluster.nodes[0].gpu", 13, "gpus is 0", "gpus = 8"),
        ("gpus = 4", "", "cluster.nodes[1].memory", 18, "gpus is 0", "no memory"),
        ("gpus = 4", "gpus = 4\ndevices = [0, 4]", "cluster.nodes[1].devices[1]", 18, "no GPU 4", "0 to 3"),
        ("gpus = 4", "gpus = 4\ndevices = [1, 1]", "cluster.nodes[1].devices[1]", 18, "twice", "once"),
        ("gpus = 4", "gpus = 4\ndevices = []", "cluster.nodes[1].devices", 18, "empty", "gpus = 0"),
        (
            "gpus = 4",
            "gpus = 4\naddress = '10.0.0.[1-3]'",
            "cluster.nodes[1].address",
            18,
            "3 addresses",
            "2",
        ),
        ("gpus = 4", "gpus = 4\naddress = '10.0.0.[1'", "cluster.nodes[1].address", 18, "brackets", "10.0"),
        ("gpus = 4", "gpus = 4\ngpsu = 1", "cluster.nodes[1].gpsu", 18, "unknown key", "cluster.nodes.gpus"),
        ("gpus = 4", "gpus = -4", "cluster.nodes[1].gpus", 17, "out of range", "from 0 to 1024"),
        ('name = "old[1-2]"', "cores = 4", "cluster.nodes[1]", 15, "no name in it", "name"),
        ('"32GiB"', '"much"', "cluster.nodes[1].memory", 18, "not a size", "80GiB"),
        ('"32GiB"', '"32"', "cluster.nodes[1].memory", 18, "not a size", "with its unit"),
        ('"32GiB"', "32", "cluster.nodes[1].memory", 18, "out of range", "80GiB"),
        ('"400Gbit/s"', '"400G"', "cluster.inter_node", 8, "not a speed", "50GB/s"),
        ('"400Gbit/s"', "0", "cluster.inter_node", 8, "out of range", "50GB/s"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(
    tmp_path: Path, old: str, new: str, path: str, line: int, wrong: str, right: str
) -> None:
    """One problem each, at the key of the very table it stands in."""
    assert WHOLE.count(old) == 1
    problem = only_problem(tmp_path, WHOLE.replace(old, new))
    assert (problem.path, problem.line) == (path, line)
    assert wrong in problem.wrong
    assert right in problem.right


@pytest.mark.parametrize(
    ("nodes", "path", "wrong", "right"),
    [
        ('["gpu99"]', "distributed.nodes[0]", 'no [[cluster.nodes]] describes "gpu99"', "gpu"),
        ('["gpu[00-04]"]', "distributed.nodes[0]", '"gpu04"', "gpu0"),
        ('["gpu00", "gpu[00-01]"]', "distributed.nodes[1]", '"gpu00" is listed twice', "once"),
        ('["gpu[00-01"]', "distributed.nodes[0]", "brackets", "list of node names"),
        ('["localhost", "gpu00"]', "distributed.nodes", "as localhost", "host name"),
    ],
)
def test_nodes_that_cannot_be_chosen(tmp_path: Path, nodes: str, path: str, wrong: str, right: str) -> None:
    """What is named is described, once, and not mixed with this machine."""
    problem = only_problem(tmp_path, WHOLE, f"distributed.nodes={nodes}")
    assert problem.path == path
    assert wrong in problem.wrong
    assert right in problem.right


def test_one_process_does_not_go_on_many_machines(tmp_path: Path) -> None:
    """Nor if they are described and not named."""
    problem = only_problem(tmp_path, WHOLE, "distributed.strategy=single")
    assert problem.wrong.startswith("6 nodes cannot be used with")
    one = loaded(tmp_path, "distributed.strategy=single", 'distributed.nodes=["gpu00"]')
    assert one.distributed.nodes == ["gpu00"]


def test_a_table_where_many_belong(tmp_path: Path) -> None:
    """[cluster.nodes] with one pair of brackets, or set on the command line, is told how it is written."""
    for found in (
        problems(tmp_path, MINIMAL + '[cluster.nodes]\nname = "a"\n'),
        problems(tmp_path, MINIMAL, "cluster.nodes.gpus=4"),
    ):
        (problem,) = found
        assert problem.path == "cluster.nodes"
        assert "tables [[cluster.nodes]]" in problem.right


def test_it_is_documented_like_any_table() -> None:
    """In the reference, one key at a time, and in the JSON schema, which asks for a name."""
    assert "\n## [[cluster.nodes]]\n" in reference()
    assert "| `name` | Name | a name such as" in reference()
    assert "| required |" in reference()
    assert explain("cluster.nodes").startswith("[[cluster.nodes]]\n")
    assert "  host_memory  " in explain("[[cluster.nodes]]")
    assert "in a table [[cluster.nodes]] of the file" in explain("cluster.nodes.gpus")
    assert "memory" in facts("cluster.nodes")["keys"]
    assert json_schema()["$defs"]["ClusterNodes"]["required"] == ["name"]
    with pytest.raises(UnknownKeyError, match=r"expected cluster\.nodes\.gpus$"):
        explain("cluster.nodes.gpuss")


def test_no_machines_are_refused(tmp_path: Path) -> None:
    """An empty list is no request for this machine's CPU."""
    problem = only_problem(tmp_path, MINIMAL, "cluster.nodes=[]")
    assert (problem.path, problem.file) == ("cluster.nodes", "--set")
    assert "no machine is described" in problem.wrong
    assert "[[cluster.nodes]]" in problem.right
