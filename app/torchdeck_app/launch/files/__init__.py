"""Run file on disk: opening, saving, external changes, and new documents."""
