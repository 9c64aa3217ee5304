"""Which of a program's progress bars is the one of its training.

Programs also draw bars for evaluation, for saving, and for preparing data, and redraw them in turns. Standard
library, Python 3.10: the agent reads output with it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.text.line import Line

_HELD_OUT = re.compile(
    r"\b(?:val|valid|validat\w{0,6}|eval\w{0,8}|test(?:ing)?|sanity|predict\w{0,4})\b"
    r"(?![ :-]{1,2}(?:loss|acc|ppl|f1|auc|score|err))",
    re.IGNORECASE,
)
_SAVING = re.compile(r"\b(?:writing|saving|uploading)\b|checkpoint shards", re.IGNORECASE)
_PREPARING = re.compile(
    r"\b(?:load|download|fetch|map|filter|tokeniz|generat|convert|resolv|pack|extract|prepar|cach|materializ|drop|"
    r"truncat|adding|applying|setting|running|formatting|flatten|group|creat|comput|caption|collect|sampl|process|"
    r"captur|scor|calculat|encod|index|read|copy|pars|build|split|sort|shuffl|initializ|quantiz|merg)\w{0,8}\b",
    re.IGNORECASE,
)
_EPOCHS = re.compile(r"^(?:train(?:ing)? )?epochs?$|/epoch$|^epoch/s$", re.IGNORECASE)
_TRAINING = re.compile(r"\b(?:train\w{0,4}|steps?|epochs?|iter\w{0,7})\b", re.IGNORECASE)


class BarPosition(NamedTuple):
    """How far the training is by its bar."""

    step: int
    total: int | None
    epoch: float | None


class _Key(NamedTuple):
    """Identity of a bar: the words of the label, and the total."""

    words: str
    total: int | None


_DIGITS = re.compile(r"[\d.,:/|()\[\]=-]+")


class TrainingBar:
    """Follows the bars of one rank.

    The training bar is the one whose total is the program's number of steps, if that is known. Otherwise it
    is the topmost bar that is not labelled as another's; one with a loss, or with the words of training in
    its label, goes before one without. A bar that begins again is the next epoch.
    """

    def __init__(self, begun: int | None = None) -> None:
        """Follow bars; `begun` is the step of the last bar that an earlier follower saw."""
        self._begun = begun
        self._key: _Key | None = None
        self._score = -1
        self._deepest: dict[_Key, int] = {}
        self._last = 0
        self._offset = 0
        self._first_epoch: float | None = None
        self._last_epoch: float | None = None
        self._outer: tuple[int, int | None] | None = None
        """Epochs done and planned, by a bar of epochs."""

    def phase(self, line: Line) -> RankPhase | None:
        """Return the phase that a bar shows, if it is another's than the training's."""
        bar = line.bar
        if bar is None:
            return None
        if _SAVING.search(bar.label):
            return RankPhase.SAVING
        if _HELD_OUT.search(bar.label) or (bar.depth and bar.total != bar.done):
            return RankPhase.EVALUATING
        return None

    def confirm(self) -> None:
        """Keep the current bar: a metric was printed at the moment it was redrawn."""
        self._score = max(self._score, 3)

    def take(self, line: Line, known_total: int | None = None) -> BarPosition | None:
        """Return the position that a line's bar shows; None if it is not the training's.

        Args:
            line: a line with a bar.
            known_total: number of steps by another source.
        """
        bar = line.bar
        assert bar is not None  # noqa: S101 - the caller's promise
        key = _Key(" ".join(_DIGITS.sub(" ", bar.label).split())[:64].lower(), bar.total)
        depth = self._deepest[key] = max(bar.depth, self._deepest.get(key, 0))
        if len(self._deepest) > 256:
            self._deepest.clear()
        if _EPOCHS.search(bar.label) or _EPOCHS.search(bar.unit):
            self._outer = (bar.done, bar.total)
            return None
        score = self._score_of(line, depth, known_total)
        if score < 0 or not self._is_chosen(key, score):
            return None
        return self._position(line)

    def _score_of(self, line: Line, depth: int, known_total: int | None) -> int:
        bar = line.bar
        if bar is None or not bar.counts_steps or line.stage or _HELD_OUT.search(bar.label):
            return -1
        if known_total is not None and bar.total == known_total:
            return 4
        if _SAVING.search(bar.label):
            return -1
        has_loss = any("loss" in name for name in line.values)
        labelled = bool(_TRAINING.search(bar.label)) or line.epoch is not None
        if not has_loss and not labelled and _PREPARING.search(bar.label):
            return -1
        if depth and not has_loss and not labelled and self._outer is None:
            return -1
        return 2 if has_loss else 1 if labelled else 0

    def _is_chosen(self, key: _Key, score: int) -> bool:
        if self._key is None or score > self._score:
            if key != self._key:
                self._key, self._last, self._offset = key, 0, 0
            self._score = score
            return True
        if key == self._key:
            return True
        # epochs of different lengths, or the real training after a loop that prepared something
        finished = self._key.total is not None and self._last >= self._key.total
        same = key.words == self._key.words and bool(key.words)
        if score == self._score and finished and (same or (key.total or 0) > (self._key.total or 0)):
            if same:
                self._offset += self._last
            else:
                self._offset = 0
            self._key, self._last = key, 0
            return True
        return False

    def _position(self, line: Line) -> BarPosition:
        bar = line.bar
        assert bar is not None  # noqa: S101 - the caller's promise
        if line.step is not None:  # the label counts the steps of all epochs
            return BarPosition(line.step, None, line.epoch)
        if self._outer is not None and bar.total:
            done, epochs = self._outer
            return BarPosition(
                done * bar.total + bar.done, epochs * bar.total if epochs else None, float(done)
            )
        if line.epoch is not None and bar.total:
            return self._in_epoch(line, bar.done, bar.total)
        if bar.done < self._last and self._last == self._key_total():
            self._offset += self._last
        if self._begun is not None and bar.total:  # epochs that were over before
            passed = max(0, self._begun - bar.done)
            self._offset = -(-passed // bar.total) * bar.total
            self._begun = None
        self._last = bar.done
        total = bar.total if self._offset == 0 else None
        return BarPosition(self._offset + bar.done, total, line.epoch)

    def _key_total(self) -> int | None:
        return None if self._key is None else self._key.total

    def _in_epoch(self, line: Line, done: int, total: int) -> BarPosition:
        epoch = line.epoch or 0.0
        if self._first_epoch is None:
            self._first_epoch = 0.0 if line.from_zero or epoch == 0 else 1.0
        before = max(0, int(epoch - self._first_epoch))
        epochs = line.epochs
        if epochs is not None and self._first_epoch == 0:
            epochs += 1  # Lightning's rich bar shows the number of the last epoch
        if done == 0 and self._last == total and epoch == self._last_epoch:
            done = total  # Lightning resets its bar before it writes the next epoch's label
        self._last, self._last_epoch = done, epoch
        return BarPosition(before * total + done, epochs * total if epochs else None, epoch)
