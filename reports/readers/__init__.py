"""Compares readers of safetensors by their results of the conformance suite; not installed."""
