"""Output of training programs: lines, progress bars, and the moments of training that they describe."""
