"""Why a run failed, and what to do."""
