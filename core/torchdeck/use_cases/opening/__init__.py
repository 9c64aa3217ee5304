"""Opens what belongs to a run in the user's own programs: an editor, a terminal."""
