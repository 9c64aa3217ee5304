"""Names of files, which are bytes, as text that JSON can hold and that converts back to the same bytes."""

from __future__ import annotations

import os
import re

_ESCAPE = re.compile(r"\\(\\|x[0-9a-f]{2})")


def text_of(name: str) -> str:
    r"""A name as `os.fsdecode` gives it, as text: bytes that are no UTF-8 as `\xNN`, a backslash twice."""
    if name.isascii() and "\\" not in name:
        return name
    return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def name_of(text: str) -> str:
    """Invert `text_of`.

    Raises:
        ValueError: no name has this text.
    """
    if "\\" not in text:
        return text
    raw = b""
    end = 0
    for match in _ESCAPE.finditer(text):
        raw += text[end : match.start()].encode("utf-8")
        raw += b"\\" if match.group(1) == "\\" else bytes.fromhex(match.group(1)[1:])
        end = match.end()
    name = os.fsdecode(raw + text[end:].encode("utf-8"))
    if text_of(name) != text:
        raise ValueError(f"{text!r} is the text of no file's name")
    return name


def checked_name(text: str) -> str:
    """Return the name of `text`, if it stays below the folder it is put in.

    Raises:
        ValueError: it is empty or absolute, or leads outside.
    """
    name = name_of(text)
    if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{text!r} is not the name of a file below a folder")
    return name
