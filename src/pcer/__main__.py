"""Run the command line with ``python -m pcer``."""

from pcer.cli import main

main()
