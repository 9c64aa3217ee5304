"""Prediction beside measurement: what a run was to need and use, and what it did."""

from torchdeck.runs.audit.audit import audit_run
from torchdeck.runs.audit.lines import audit_lines, verdict_lines
from torchdeck.runs.audit.result import Audit, RankAudit, SamplesCheck

__all__ = ["Audit", "RankAudit", "SamplesCheck", "audit_lines", "audit_run", "verdict_lines"]
