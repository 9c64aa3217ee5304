"""What is said of a run that cannot be planned: at once, but where nodes are at fault."""

from pathlib import Path
from typing import Any

import pytest

from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching import checked_plan as module
from torchdeck.launching.checked_plan import checked_plan
from torchdeck.launching.facts.probed_nodes import NodeFault, NodeReport
from torchdeck.launching.prepare import ClusterFacts
from torchdeck.plan.check import Check, PlanError, failed

FAULT = NodeFault("n2", "ssh", "no one answers", "try again")


@pytest.mark.parametrize(("faults", "checked"), [((), False), ((FAULT,), True)])
def test_only_faults_of_nodes_are_told_with_what_the_checks_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: tuple[NodeFault, ...], *, checked: bool
) -> None:
    """The checks talk to nodes for seconds: a mistake in the config is not to wait for them."""
    (tmp_path / "train.py").write_text("")
    asked = {"run": {"script": "train.py"}, "distributed": {"nodes": ["n1", "n2"]}}
    config: RunConfig = config_from_dict(asked, tmp_path)
    remote = NodeReport(("n1", "n2"), faults=faults)
    found = ClusterFacts(Inventory(()), {}, {}, CodeTree(), (), remote=remote)
    looked: list[Any] = []

    def preflight(*asked: Any) -> list[Check]:
        looked.append(asked)
        return [failed("script", "n1", "it is not there", "write it")]

    monkeypatch.setattr(module, "cluster_facts", lambda *_asked, **_looks: found)
    monkeypatch.setattr(module, "preflight", preflight)
    with pytest.raises(PlanError) as caught:
        checked_plan(config, tmp_path / "home")
    assert bool(looked) == checked
    assert ("it is not there" in str(caught.value)) == checked
