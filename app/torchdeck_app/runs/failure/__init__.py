"""Why a run failed, and how to fix it."""
