"""The console script: a process of its own, which starts fast and leaves at once."""

import gc
import os
import sys

_COULD_NOT_WRITE = 2


def run() -> None:
    """Run the command line of this process and end it."""
    # Loading makes many objects and no garbage, and the trees of models are taken apart when they are done with.
    gc.disable()
    from verblint.cli.main import main

    code = main()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BrokenPipeError:
        code = _COULD_NOT_WRITE
    # Everything is written and closed. To take every object apart would take longer than to check a model.
    os._exit(code)
