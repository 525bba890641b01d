"""The change points of tzmark history, and its page."""
