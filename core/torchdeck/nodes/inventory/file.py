"""nodes.toml on disk: read with all problems reported at once, changed by one process at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.toml.document import TooDeepError, parse, scan
from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import changing
from torchdeck.nodes.inventory.problems import problems_of
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.trust.writers import other_writers_of_file

MAX_BYTES = 8 << 20
"""Maximum size; longer files are not node inventories."""


def inventory_path(home: Path) -> Path:
    """Return the path of the node inventory in a Torchdeck home; it may not exist yet."""
    return Home(home).node_inventory


def read_inventory(path: Path) -> NodeInventory:
    """Read the node inventory at `path`; one without nodes if there is no file.

    Raises:
        ConfigError: with every problem in it.
    """
    return parse_inventory(_read(path), str(path))


def parse_inventory(text: str, name: str) -> NodeInventory:
    """Parse a node inventory.

    Args:
        text: the content of a nodes.toml.
        name: name of the file in problems.

    Raises:
        ConfigError: with every problem in it.
    """
    try:
        table = parse(text)
        lines = scan(text).lines
    except (ValueError, TooDeepError, RecursionError) as error:
        raise ConfigError(
            [Problem("", name, None, f"this is not TOML: {error}", "a file of TOML")]
        ) from error
    problems = problems_of(table, lines, name)
    if problems:
        raise ConfigError(problems)
    return NodeInventory.model_validate(table)


def change_inventory(path: Path, change: Callable[[str], str]) -> NodeInventory:
    """Change the text of the inventory atomically, under a lock; the result must be valid.

    Args:
        path: path of the inventory, which need not exist.
        change: from the old text to the new one; a function of `torchdeck.nodes.inventory.file_edits`.

    Returns:
        The changed inventory.

    Raises:
        ConfigError: it would be invalid, or is; nothing is changed then.
        EditError: the text cannot be changed this way.
        TimeoutError: another process has been changing it for too long.
        OSError: it cannot be written.
    """
    with changing(path):
        text = _read(path)
        changed = change(text)
        node_inventory = parse_inventory(changed, str(path))
        if changed != text:
            write_bytes(path, changed.encode("utf-8"), private=True)
        return node_inventory


def _read(path: Path) -> str:
    def wrong(what: str, right: str) -> ConfigError:
        return ConfigError([Problem("", str(path), None, what, right)])

    try:
        content = read_bounded(path, MAX_BYTES)
        writers = other_writers_of_file(path)
    except FileNotFoundError:
        return ""
    except UnreadableFileError as error:
        raise wrong(f"it {error.why}", "a TOML file with the node inventory") from error
    except OSError as error:
        raise wrong(f"it cannot be read: {error.strerror}", "a file that you can read") from error
    if writers is not None:  # it names scripts and Pythons that are executed
        raise wrong(f"it is ignored, because {writers.what}", writers.fix)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise wrong(f"byte {error.start} is not UTF-8", "a text file in UTF-8") from error
