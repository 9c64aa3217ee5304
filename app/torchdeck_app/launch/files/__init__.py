"""The run file on disk: opening, saving, what others change meanwhile, what to begin with."""
