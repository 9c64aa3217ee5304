"""Output of the ranks as one list of lines, of any length and with random access."""
