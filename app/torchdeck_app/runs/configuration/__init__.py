"""A run's configuration, and how it differs from another."""
