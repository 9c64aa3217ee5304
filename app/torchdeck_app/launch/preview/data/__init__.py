"""Distribution of data among ranks, and its balance."""
