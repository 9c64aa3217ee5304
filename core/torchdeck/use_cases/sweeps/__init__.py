"""Begin, drive, continue and list sweeps."""
