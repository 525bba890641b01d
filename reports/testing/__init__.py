"""Samples and helpers for tests of the reports; not installed."""
