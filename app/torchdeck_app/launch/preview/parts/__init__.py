"""Widgets shared by the views of the preview."""
