"""Which lines of the text have a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchdeck.config.problems import Problem
from torchdeck_app.launch.document.checked import CheckedDocument


def marks_of(checked: CheckedDocument, planned: Sequence[Problem] = ()) -> Mapping[int, str]:
    """Line, from 1 → what is wrong there; what is wrong in a file that this one extends is at `extends`.

    `planned` says why no plan can be made of a document with which nothing else is wrong.
    """
    found: dict[int, list[str]] = {}
    for problem in checked.problems or planned:
        sentence = f"{problem.path}: {problem.wrong}" if problem.path else problem.wrong
        text = f"{sentence}\nRight would be: {problem.right}"
        if checked.is_own(problem):
            line = problem.line or 1
        else:
            line = checked.lines.get(("extends",), 1)
            text = f"{problem.file}: {text}"
        found.setdefault(line, []).append(text)
    return {line: "\n".join(texts) for line, texts in found.items()}
