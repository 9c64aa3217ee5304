"""Error reports of the window itself."""
