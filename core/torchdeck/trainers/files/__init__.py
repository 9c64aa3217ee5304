"""Files in which training programs report metrics: their readers, and how a run's own are found.

Each reader follows one file: it reads what is new, in pieces of bounded size. A damaged file has no more
readings, never an error.
"""
