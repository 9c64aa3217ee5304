"""Start order of a link server: run and node, and how to detect shared files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.link.names import is_node_name
from torchdeck.contract.layout import Home, RunLayout

_TOKEN = re.compile(r"link-[0-9a-f]{8,64}\.token")


class OrderError(ValueError):
    """The order cannot be carried out; the message says why."""


class LinkOrder(NamedTuple):
    """One link's order."""

    run_id: str
    node: str
    home: Path
    """TORCHDECK_HOME on this node, absolute."""
    token_name: str
    """A file that the controller laid into its run directory."""
    token: str
    """Content of the file."""

    @property
    def layout(self) -> RunLayout:
        return Home(self.home).run(self.run_id)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], home: Path) -> LinkOrder:
        """Checked. Raises OrderError."""
        texts = {name: value.get(name) for name in ("run_id", "node", "token_name", "token")}
        wrong = [name for name, text in texts.items() if not isinstance(text, str)]
        if wrong:
            raise OrderError(f"the order of a link has no {wrong[0]}")
        order = cls(home=home, **texts)  # type: ignore[arg-type] # all are texts
        if not is_node_name(order.run_id) or not is_node_name(order.node):
            raise OrderError(f"{order.run_id!r} or {order.node!r} is no name of a run or node")
        if not _TOKEN.fullmatch(order.token_name) or len(order.token) < 16:
            raise OrderError("the order of a link has no proper token")
        return order

    def shared(self) -> bool:
        """The controller's run directory is this one."""
        try:
            return (self.layout.root / self.token_name).read_text() == self.token
        except (OSError, ValueError):
            return False
