"""Current problems of the run file: its own, and those on these machines."""

from __future__ import annotations

from torchdeck.config.problems import Problem
from torchdeck_app.launch.batch_plan.control import BatchPlanControl
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.document_views import DocumentViews
from torchdeck_app.launch.preview.service import PreviewService
from torchdeck_app.launch.problem_rows import ProblemRow, problem_rows
from torchdeck_app.launch.problems.list import ProblemList


class FoundProblems:
    """Problems of `document`, and those that `service` has found in planning it."""

    def __init__(self, document: RunDocument, service: PreviewService) -> None:
        self._document, self._service = document, service

    def rows(self) -> tuple[ProblemRow, ...]:
        """Return the current or pending rows of the problem list."""
        return problem_rows(self._document.newest, self._planned())

    def show(self, shown: ProblemList, views: DocumentViews, batch_plan: BatchPlanControl) -> None:
        """Show the problems in the list, at fields and lines, and for a missing batch plan."""
        checked, planned = self._document.newest, self._planned()
        shown.show_rows(self.rows())
        views.show_planned(planned)
        if checked is not None and self._service.state.version == checked.version:
            batch_plan.show_problems(checked, planned)

    def _planned(self) -> tuple[Problem, ...]:
        """Return the planning problems of the last checked text."""
        checked, state = self._document.newest, self._service.state
        is_newest = checked is not None and checked.loaded is not None and state.version == checked.version
        return state.problems if is_newest else ()
