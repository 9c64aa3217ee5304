"""Logged images, texts, histograms and tables on a run's page."""
