"""The batch plan that a run needs before it can start: said when it is missing, and built from here."""
