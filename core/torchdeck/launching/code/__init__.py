"""The user's code: which files of it a run needs, a copy for the run, and sending that to nodes."""
