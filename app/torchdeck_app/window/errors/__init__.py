"""Errors of the window itself, reported."""
