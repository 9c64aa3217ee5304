"""The nodes of the book, a card for each."""
