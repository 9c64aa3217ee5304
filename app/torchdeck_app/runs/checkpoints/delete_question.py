"""The one question before a checkpoint is deleted for good."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QMessageBox, QWidget

from torchdeck.quantities import size
from torchdeck.runs.folders.checkpoints import RunCheckpoint
from torchdeck_app.widgets.question import Choice, ask


def delete_question(
    row: RunCheckpoint, others: int, parent: QWidget, delete: Callable[[], None]
) -> QMessageBox:
    """Say what is lost, and ask; Enter and Esc keep it.

    Args:
        row: the checkpoint.
        others: complete checkpoints that stay.
        parent: of the dialog.
        delete: called where that is what the person wants.
    """
    stay = "1 complete one stays" if others == 1 else f"{others:,} complete ones stay"
    rest = stay if others else "the run cannot be resumed any more"
    return ask(
        parent,
        f"Delete {row.info.path.name} ({size(row.info.size)})?",
        f"It cannot be undone; {rest}.",
        [
            Choice("Delete", QMessageBox.ButtonRole.DestructiveRole, delete),
            Choice("Keep it", QMessageBox.ButtonRole.RejectRole, lambda: None),
        ],
        default=1,
    )
