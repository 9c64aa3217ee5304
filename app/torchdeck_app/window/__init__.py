"""The main window around the places."""
