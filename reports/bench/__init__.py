"""The page of tzmark bench: selects its results, draws its figures and fills its tables."""
