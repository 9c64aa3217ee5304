"""What the window reports: notices, tray, status bar, runs that end."""
