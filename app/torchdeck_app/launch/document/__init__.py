"""The document: one text, one history, and what it says once it is checked."""
