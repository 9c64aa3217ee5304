"""The user's code: the files a run needs, a copy for the run, and sending it to nodes."""
