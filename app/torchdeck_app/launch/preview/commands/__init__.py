"""What every node executes."""
