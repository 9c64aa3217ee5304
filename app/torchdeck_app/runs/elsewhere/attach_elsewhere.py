"""Following a run started on another machine: chosen in a dialog, attached in a worker."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QLineEdit, QWidget

from torchdeck.use_cases.attach import attach_elsewhere
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.runs.elsewhere.asked_run import AskedRun, FoundRun, RunDialog

LATEST = "latest"
_ABOUT = (
    "A run that was started from another machine can be shown, followed, stopped and pulled from "
    "here, through any of its nodes."
)


class RunsElsewhere(AskedRun["AttachDialog"]):
    """Attaches to runs on nodes."""

    def make_dialog(self, nodes: Sequence[str]) -> AttachDialog | None:
        """Return the dialog; it needs a node."""
        if not nodes:
            self.failed.emit("There are no nodes yet: add the run's in Nodes")
            return None
        return AttachDialog(nodes, self.window())

    def begin(self, dialog: AttachDialog) -> None:
        """Attach."""
        node, asked = dialog.node.currentText(), dialog.run.text().strip() or LATEST

        def call(ui: WorkerUi) -> FoundRun:
            found = attach_elsewhere(node, asked, self._logins.home, ui, until_followed=True)
            lacks = "\n".join(f"Not here yet: {why}" for why in found.unreached.values())
            return FoundRun(found.layout.root.name, lacks)

        dialog.show_progress(f"asking {node} for its runs")
        self.run(dialog, f"attaching to a run on {node}", call)


class AttachDialog(RunDialog):
    """Dialog that asks for a node of the inventory and a run: its id, an id prefix, its name, or `latest`."""

    def __init__(self, nodes: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__("Attach to a run on a node", _ABOUT, "&Attach", nodes, parent)
        self.node.setToolTip("Any node of the run that is in the node inventory")
        self.run = QLineEdit(LATEST)
        self.run.setAccessibleName("Run")
        self.run.setToolTip("Run id or its beginning, name, or latest")
        self.form.addRow("&Run", self.run)

    def enable(self, *, busy: bool) -> None:
        """Enable the fields unless the operation runs."""
        for control in (self.node, self.run, self.start_button):
            control.setEnabled(not busy)
