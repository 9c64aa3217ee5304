"""README.md and ARCHITECTURE.md stay short; decision records are complete and listed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md"])
def test_it_can_be_read_in_five_minutes(name: str) -> None:
    assert len((ROOT / name).read_text("utf-8").split()) <= 900


def test_architecture_names_every_package() -> None:
    """And no package that is gone."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    core = ROOT / "core" / "torchdeck"
    packages = {path.parent.name for path in core.glob("*/__init__.py")}
    table = set(re.findall(r"^\| `(\w+)/`", text, re.MULTILINE))
    assert table == packages


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_complete(record: Path) -> None:
    """Number in the title, date, status, and the four sections."""
    text = record.read_text("utf-8")
    assert text.startswith(f"# {record.name[:4]}: ")
    assert re.search(r"^- Date: \d{4}-\d\d-\d\d\n- Status: (accepted$|withdrawn: \S)", text, re.MULTILINE)
    sections = re.findall(r"^## (\w+)\n\n(\S)", text, re.MULTILINE)
    assert [name for name, _ in sections] == ["Context", "Decision", "Consequences", "Measurement"]


def test_the_index_lists_each_record_once() -> None:
    index = (FOLDER / "index.md").read_text("utf-8")
    listed = re.findall(r"^- \[(\d{4})\]\((\S+)\)", index, re.MULTILINE)
    assert sorted(name for _, name in listed) == [record.name for record in RECORDS]
    assert all(name.startswith(number) for number, name in listed)
    assert len({number for number, _ in listed}) == len(listed)


def test_contributing_names_files_of_a_run_directory() -> None:
    """Those that the layouts in contract/ list, manifests apart."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Reading a run directory")[2]
    rows = re.findall(r"^\| [^|]+\? \| (.+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    names = {Path(word).name for row in rows for word in re.findall(r"`([\w./]+)`", row)}
    contract = ROOT / "core" / "torchdeck" / "contract"
    layout = "".join((contract / name).read_text("utf-8") for name in ("layout.py", "rank_layout.py"))
    assert len(names) > 12
    assert {name for name in names if f'"{name}"' not in layout} == {"manifest.json"}
