"""What all reports share: outcomes, results as they are read, and the files that are written."""
