"""Notes, marks and saved views that the user keeps about runs, and the room that runs take."""
