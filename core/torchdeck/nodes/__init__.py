"""The machines of a job: what they have, and how that is found out."""
