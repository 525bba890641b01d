"""The page of tzmark compare and tzmark bench against."""
