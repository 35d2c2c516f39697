"""The console script: starts fast and exits immediately."""

import gc
import os
import sys

_COULD_NOT_WRITE = 2


def run() -> None:
    """Run the command line and exit the process."""
    # Imports create many objects but no garbage, and model trees are taken apart after use.
    gc.disable()
    from verblint.cli.main import main

    code = main()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BrokenPipeError:
        code = _COULD_NOT_WRITE
    # All output is flushed. Deallocating every object would take longer than checking a model.
    os._exit(code)
