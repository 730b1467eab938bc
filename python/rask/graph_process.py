"""A graph process: opens pickled graphs so that the scheduler never has to.

Started by the scheduler as `python -m rask.graph_process` with the link on descriptor 3
(scheduler/frontend/README.md). It keeps nothing between submissions and may be killed at any time.
User code runs here: what it prints goes to standard output, never to the link.
"""

from __future__ import annotations


def main() -> None:
    from rask.graph.serve import serve

    serve(3)


if __name__ == "__main__":
    main()
