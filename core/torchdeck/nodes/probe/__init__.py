"""Looking at nodes from here: what each has and does, asked over one channel, nothing left behind on it."""
