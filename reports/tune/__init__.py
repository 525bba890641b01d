"""The page of tzmark tune."""
