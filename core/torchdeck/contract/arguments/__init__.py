"""Arguments of public functions: errors that name them, and the check before a call."""
