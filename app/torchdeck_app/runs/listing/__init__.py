"""Controls of the list of runs: columns, views, groups; and the room that runs take."""
