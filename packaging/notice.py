"""NOTICE, made of the metadata of what releases carry: `python packaging/notice.py [--check]`.

With --check the file must be as this would write it; exit code 1 if it is not.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from hashes import ALONE, FILES, is_here, needed, pins

NOTICE = Path(__file__).parents[1] / "NOTICE"
HEAD = """\
Torchdeck
Copyright the Torchdeck authors, licensed under the Apache License 2.0 (see LICENSE).

Bundles of Torchdeck carry the packages below, each under its own licence; the full texts are in each
package's folder of metadata (NAME-VERSION.dist-info). Qt, PySide and paramiko are used under the LGPL: they
are separate libraries, and can be replaced by others of the same version. The extras `hf`,
`sweep`, `tensorflow`, `deepspeed`, `dev` and `docs` are in no bundle; nor are the CUDA libraries that some
builds of torch bring along.
The built documentation carries styles and scripts of Material for MkDocs (MIT, Copyright Martin Donath).

Made of the packages' own metadata by packaging/notice.py.
"""
KNOWN = {
    "nvidia-ml-py": "BSD-3-Clause",
}
"""Of packages that may be absent here."""
_PREFIX = "License :: OSI Approved :: "
_LONGEST = 100
"""Characters of a licence's name; more is its text."""


def licence_of(package: str) -> str:
    """The licence that a package's metadata names: an SPDX expression, its short name, or classifiers.

    Raises:
        SystemExit: it names none.
    """
    try:
        found = distribution(package)
    except PackageNotFoundError:
        if package in KNOWN:
            return KNOWN[package]
        raise SystemExit(
            f"{package} is not installed in this environment: install every extra first"
        ) from None
    named = _named(found)
    if not named:
        raise SystemExit(f"the metadata of {package} names no licence: look it up, and add it to KNOWN")
    return named


def _named(found: Distribution) -> str:
    metadata = found.metadata
    expression = metadata.get("License-Expression")
    if expression:
        return str(expression)
    classifiers = [
        text.removeprefix(_PREFIX).removeprefix("License :: ")
        for text in metadata.get_all("Classifier", [])
        if text.startswith("License :: ") and text != _PREFIX.rstrip(": ")
    ]
    if classifiers:
        return " or ".join(dict.fromkeys(classifiers))
    text = str(metadata.get("License") or "").strip()
    return (
        text if len(text) <= _LONGEST and "\n" not in text else KNOWN.get(found.metadata["Name"].lower(), "")
    )


def text() -> str:
    """All of NOTICE."""
    pinned = pins()
    packages = sorted(needed([extra for extras in FILES.values() for extra in extras]) | ALONE)
    lines = [f"- {package} {pinned[package]}: {licence_of(package)}" for package in packages]
    return "\n".join([HEAD, *lines]) + "\n"


def faults() -> set[str]:
    """Lines that NOTICE lacks or has too many; packages that only another Python needs may be in it."""
    written = NOTICE.read_text(encoding="utf-8").splitlines() if NOTICE.is_file() else []
    right = text().splitlines()
    more = {
        line for line in set(written) - set(right) if not line.startswith("- ") or is_here(line.split()[1])
    }
    return more | (set(right) - set(written))


def main() -> int:
    """Write NOTICE, or look whether it fits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only look whether the file fits")
    if not parser.parse_args().check:
        NOTICE.write_text(text(), encoding="utf-8")
        return 0
    if not faults():
        return 0
    print("NOTICE is not what the packages say: `python packaging/notice.py` makes it again", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
