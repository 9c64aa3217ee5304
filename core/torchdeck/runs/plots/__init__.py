"""Data of plots: metrics of runs, read from their files and reduced to columns of pixels."""
