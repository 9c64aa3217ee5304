"""The table of runs: its rows, columns, filter, order, groups and saved views. Values only."""
