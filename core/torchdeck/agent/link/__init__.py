"""The node's end of a link: over one SSH channel it sends a run's files to the controller and takes requests.

Standard library only, Python 3.10. It decides nothing about the run, and may end at any moment.
"""
