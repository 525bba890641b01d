"""python -m tzmark: the command tzmark."""

from ._command import main

main()
