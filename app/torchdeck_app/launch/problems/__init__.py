"""What is wrong with the run file, as a list that leads there."""
