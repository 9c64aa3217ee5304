"""What the ranks printed, as one list of lines: any length, any part of it at once."""
