"""Links between the documents at the root and in docs/ lead to files and headings that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """What GitHub and mkdocs make of the headings."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(CODE.sub("", text)))
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Addresses of other sites are not followed."""
    for link in LINK.findall(CODE.sub("", document.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        generated = target.suffix == ".md" and "<!-- generated: " in target.read_text("utf-8")
        if anchor and target.suffix == ".md" and not generated:  # mkdocs checks those when it builds
            assert anchor in anchors(target.read_text("utf-8")), link


def test_there_are_links_to_check() -> None:
    """README.md links to the documentation."""
    assert len(LINK.findall((ROOT / "README.md").read_text("utf-8"))) > 3
