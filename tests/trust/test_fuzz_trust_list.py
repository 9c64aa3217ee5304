"""Any content of trusted.json: entries that can be shown and written again, or the reason why not."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.refusals import refused
from torchdeck.trust.trust_list import TrustError, TrustList

SEEN = [0, 0o755, ""]
ENTRY = {"path": "/usr", "seen": SEEN, "files": {"model.py": [0, 0o644, "0" * 64]}}
SCRIPTS = {"gpu1:/opt/on.sh": "0" * 64, "gpu2:~/on.sh": ""}
LISTS = (
    {"v": 2, "trusted": [ENTRY, {"path": "/gone", "seen": None}], "node_scripts": SCRIPTS},
    {"v": 1, "folders": ["/usr"]},
)


def read_list(case: bytes, place: Path) -> None:
    home, folder = place / "home", place / "folder"
    home.mkdir(mode=0o700)
    folder.mkdir(mode=0o700)
    (home / "trusted.json").write_bytes(case)
    trusted = TrustList(home)

    def use() -> None:
        for entry in trusted.entries():
            assert os.fsencode(entry.path)
            assert str(entry.state())
            json.dumps(entry.to_json())
        assert all(map(os.fsencode, map(str, trusted.node_scripts())))
        trusted.add(folder)
        assert trusted.standing(folder).trusted
        assert trusted.remove(folder)

    refused(use, TrustError)


def test_any_trust_list() -> None:
    read_all(read_list, hostile.documents(*LISTS) | st.binary())
