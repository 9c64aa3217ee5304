"""Code that the user has trusted, and detection of others who could change it."""
