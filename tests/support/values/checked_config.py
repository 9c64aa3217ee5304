"""A config in a folder of its own, and what preflight says of it."""

from pathlib import Path
from typing import Any

from support.values.machines import PYTHON, node
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.gate import Gate
from torchdeck.launching.preflight import Check, preflight
from torchdeck.launching.prepare import ClusterFacts, plan_from


class CheckedConfig:
    """The checks of one config in a folder of its own, with an interpreter that has all it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.interpreter = PYTHON
        self.gpus = 0

    def checks(self, run: dict[str, Any], **tables: Any) -> dict[str, Check]:
        """The worst check of each name."""
        asked = config_from_dict({"run": run, **tables}, self.folder)
        inventory = Inventory((node(gpus=self.gpus),))
        held = Gate(self.home).held(asked)
        found = ClusterFacts(inventory, {"localhost": self.interpreter}, {}, CodeTree(), (), held=held)
        order = ["ok", "warning", "failed"]
        results = preflight(asked, plan_from(asked, found), found, self.home)
        return {check.name: check for check in sorted(results, key=lambda check: order.index(check.status))}

    def recipe(self, **tables: Any) -> dict[str, Check]:
        return self.checks({"recipe": "byte-gpt"}, **{"training": {"steps": 1}, **tables})

    def script(self, name: str = "train.py", **tables: Any) -> dict[str, Check]:
        (self.folder / "train.py").touch()
        return self.checks({"script": name}, **tables)


def assert_refused(check: Check, *words: str) -> None:
    """It failed, says why in one line, and what to do."""
    assert check.status == "failed", check
    assert all(word in str(check) for word in words), str(check)
    assert "\n" not in str(check)
    assert check.fix
