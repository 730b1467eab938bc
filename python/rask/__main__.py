"""`python -m rask` is the `rask` command."""

from rask.cli import main

main()
