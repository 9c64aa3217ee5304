"""The Launch place: a run file beside its consequences."""
