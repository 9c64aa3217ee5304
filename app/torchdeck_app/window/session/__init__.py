"""What the next start finds again."""
