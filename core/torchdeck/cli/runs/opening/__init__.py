"""Commands that open what belongs to a run in the user's own programs."""
