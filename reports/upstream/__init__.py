"""Compares results of upstream releases and describes what they get wrong; not installed."""
