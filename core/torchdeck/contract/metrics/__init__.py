"""Metric segments and progress records, byte for byte."""
