"""Exit codes of the commands."""

from __future__ import annotations

SUCCEEDED = 0
RUN_FAILED = 1
USAGE = 2
"""A bad config, a bad command line, or a run that does not exist."""
REFUSED = 3
"""Nothing was started."""
STOPPED = 130
"""By the user."""
