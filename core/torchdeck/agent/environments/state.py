"""uv and the environments made with it on this node, for a plan."""

from __future__ import annotations

from torchdeck.agent.environments.environment_files import platform_name
from torchdeck.agent.environments.made import all_made
from torchdeck.agent.environments.make import find_uv
from torchdeck.contract.inventory import UvFacts
from torchdeck.contract.layout import Home


def uv_facts(home: Home) -> UvFacts:
    """Return where uv is, and which environments `home` has. No process is started."""
    made = {each.key: (each.torch, each.numpy) for each in all_made(home)}
    return UvFacts(find_uv(), platform_name(), made)
