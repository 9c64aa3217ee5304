"""Reports of the window: notices, tray, status bar, finished runs."""
