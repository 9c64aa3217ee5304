"""Queue page."""
