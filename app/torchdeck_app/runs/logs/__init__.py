"""Output of the ranks: followed and searched, of any length."""
