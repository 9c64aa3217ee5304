"""Main window around the pages."""
