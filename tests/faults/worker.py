"""A worker without one of its guards: `python -m tests.faults.worker GUARD worker --app ...`. Only for controls."""

import importlib.metadata
import sys

from tests.faults.guards import take_out


def main() -> None:
    """Take the guard out, then be the installed command."""
    take_out(sys.argv[1])
    sys.argv = ["verbworker", *sys.argv[2:]]
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="verbworker")
    entry.load()()


if __name__ == "__main__":
    main()
