"""The static site of the project, made of committed results, the corpus and the documents; not installed."""
