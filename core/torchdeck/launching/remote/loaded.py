"""Everything that a link to a node imports once it is wanted: for who has time before that."""

from torchdeck.config import problems
from torchdeck.launching.remote import bootstrap, code, dial, early_links, link_file, own_files, transport
from torchdeck.nodes import connector as reach
from torchdeck.nodes import start_line
from torchdeck.nodes.ssh import loaded

__all__ = [
    "bootstrap",
    "code",
    "dial",
    "early_links",
    "link_file",
    "loaded",
    "own_files",
    "problems",
    "reach",
    "start_line",
    "transport",
]
