"""Live plots of a run's metrics."""
