"""Counters of network interfaces, by folders as Linux has them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from support.doctor.evidence import waits
from torchdeck.agent.doctor.evidence import Kind
from torchdeck.agent.doctor.examiner import Examiner
from torchdeck.agent.doctor.judge import judge
from torchdeck.agent.doctor.node import interfaces
from torchdeck.agent.doctor.node.interfaces import MOST, InterfaceEvidence, faults, read_counters
from torchdeck.agent.doctor.stalls import Standing
from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.rank_layout import ExaminationLayout
from torchdeck.contract.run_states import RankPhase


def write(folder: Path, **values: object) -> None:
    """Files of counters, each with one value."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")


def interface(root: Path, name: str, *, carrier: int | None = 1, lost: int = 0, **statistics: int) -> None:
    """An interface of Linux; `carrier` None: it is down, and the file cannot be read."""
    folder = root / "net" / name
    write(folder, carrier_down_count=lost)
    write(folder / "statistics", **{"rx_errors": 0, "rx_dropped": 0, "rx_bytes": 9000, **statistics})
    if carrier is None:
        (folder / "carrier").unlink(missing_ok=True)
    else:
        write(folder, carrier=carrier)


def port(root: Path, *, state: str = "4: ACTIVE", **counters: int) -> None:
    """The first port of an InfiniBand adapter."""
    folder = root / "infiniband" / "mlx5_0" / "ports" / "1"
    write(folder, state=state)
    write(folder / "counters", **{"symbol_error": 0, "port_xmit_wait": 5, "link_downed": 0, **counters})


def test_counters_are_read_by_interface(tmp_path: Path) -> None:
    interface(tmp_path, "eth1", rx_errors=3, rx_dropped=7)
    interface(tmp_path, "lo")
    interface(tmp_path, "veth0")
    (tmp_path / "net" / "veth0" / "brport").mkdir()
    port(tmp_path, port_xmit_wait=12)
    found = read_counters(tmp_path)
    assert set(found) == {"eth1", "mlx5_0/1"}
    assert (found["eth1"]["rx_errors"], found["eth1"]["rx_dropped"], found["eth1"]["carrier"]) == (3, 7, 1)
    assert (found["mlx5_0/1"]["port_xmit_wait"], found["mlx5_0/1"]["carrier"]) == (12, 1)


def test_hardware_comes_first_among_many_interfaces(tmp_path: Path) -> None:
    """A node of Kubernetes has hundreds."""
    for number in range(MOST + 6):
        interface(tmp_path, f"cali{number:03}")
    interface(tmp_path, "eth0")
    (tmp_path / "net" / "eth0" / "device").mkdir()
    found = read_counters(tmp_path)
    assert len(found) == MOST
    assert "eth0" in found


def test_an_adapter_that_does_not_answer_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it asked again while it is silent; what was read before is written."""
    interface(tmp_path, "eth1")
    evidence = InterfaceEvidence(tmp_path)
    answers, asked = threading.Event(), []

    def silent(root: Path) -> dict[str, dict[str, int]]:
        asked.append(root)
        answers.wait(60)
        return {}

    monkeypatch.setattr(interfaces, "read_counters", silent)
    monkeypatch.setattr(interfaces, "LIMIT", 0.01)
    try:
        evidence.begin()
        assert evidence.end(tmp_path / "0.interfaces.json") == ""
    finally:
        answers.set()
    assert len(asked) == 1
    samples = read_json(tmp_path / "0.interfaces.json")["samples"]
    assert [set(sample["interfaces"]) for sample in samples] == [{"eth1"}, set(), set()]


def test_a_machine_without_such_folders_has_no_counters(tmp_path: Path) -> None:
    assert read_counters(tmp_path) == {}


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({"carrier": 1, "rx_errors": 130}, "120 receive errors"),
        ({"carrier": 1, "rx_errors": 11}, "1 receive error"),
        ({"carrier": 0, "rx_errors": 130}, "120 receive errors, carrier lost"),
        ({"carrier": 1, "rx_errors": 10, "carrier_down_count": 3}, "carrier lost for a time"),
        ({"carrier": 1, "rx_errors": 10, "rx_dropped": 900}, None),
        ({"carrier": 1, "rx_errors": 0}, None),
        ({"carrier": 1}, None),
    ],
)
def test_changes_in_words(after: dict[str, int], words: str | None) -> None:
    """Drops alone are usual; counters that began again at 0 tell nothing."""
    before = {"carrier": 1, "rx_errors": 10, "rx_dropped": 1, "carrier_down_count": 2}
    assert faults({"eth1": before}, {"eth1": after}).get("eth1") == words


def test_an_interface_without_a_link_from_the_beginning_is_none_that_lost_it() -> None:
    assert not faults({"eth3": {"carrier": 0}}, {"eth3": {"carrier": 0}, "eth4": {"carrier": 0}})


def test_all_samples_are_written_and_the_faulty_links_named(tmp_path: Path) -> None:
    """One that is taken down and an InfiniBand port, too."""
    interface(tmp_path, "eth1", rx_errors=10)
    interface(tmp_path, "eth2")
    port(tmp_path)
    evidence = InterfaceEvidence(tmp_path)
    interface(tmp_path, "eth1", rx_errors=100, lost=1)
    evidence.begin()
    interface(tmp_path, "eth1", carrier=0, lost=1, rx_errors=130)
    interface(tmp_path, "eth2", carrier=None)
    port(tmp_path, symbol_error=4)
    said = evidence.end(tmp_path / "0.interfaces.json")
    assert said == "eth1: 120 receive errors, carrier lost; eth2: carrier lost; mlx5_0/1: 4 symbol errors"
    samples = read_json(tmp_path / "0.interfaces.json")["samples"]
    assert [sample["when"] for sample in samples] == ["attempt", "examination", "evidence"]
    assert [sample["interfaces"]["eth1"]["rx_errors"] for sample in samples] == [10, 100, 130]


def test_a_folder_that_is_gone_loses_the_file_but_not_the_words(tmp_path: Path) -> None:
    interface(tmp_path, "eth1")
    evidence = InterfaceEvidence(tmp_path)
    interface(tmp_path, "eth1", carrier=0)
    assert evidence.end(tmp_path / "none" / "0.interfaces.json") == "eth1: carrier lost"


def test_the_sentence_of_a_common_collective_names_them_once_per_node() -> None:
    faulty = "eth1: 120 receive errors, carrier lost"
    ranks = {number: waits(number, interfaces=faulty if number > 1 else "") for number in range(4)}
    found = judge(ranks, {0: "gpu3", 1: "gpu3", 2: "gpu4", 3: "gpu4"})
    assert found.kind is Kind.COLLECTIVE
    assert found.sentence.endswith(f" Network interfaces since the attempt began: gpu4, {faulty}.")
    here = judge(ranks, dict.fromkeys(ranks, "gpu3"))
    assert here.sentence.endswith(f" Network interfaces since the attempt began: {faulty}.")


def test_an_examination_writes_them_with_its_evidence(tmp_path: Path) -> None:
    """The examiner's part of it, with this process as the rank, which has no heartbeat."""
    examiner = Examiner(AttemptLayout(tmp_path), {})
    (tmp_path / "ranks" / "2").mkdir(parents=True)
    rank = Standing(2, RankPhase.TRAINING, 4, 0.0, None, watched=False, pid=os.getpid())
    examiner.begin("1", {2: rank}, {}, 0.0)
    folder = ExaminationLayout(AttemptLayout(tmp_path).examination("1").root)
    found = None
    for at in range(1, 20):
        examiner.looked(float(at))
        found = examiner.poll({2: rank}, {}, {}, float(at))
        if found is not None:
            break
    examiner.close()
    assert found is not None
    assert len(read_json(folder.interfaces(2))["samples"]) == 3
    assert "interfaces" in read_json(folder.rank(2))
