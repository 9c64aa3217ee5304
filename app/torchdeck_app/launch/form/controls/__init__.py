"""Controls of the form that show and edit values."""
