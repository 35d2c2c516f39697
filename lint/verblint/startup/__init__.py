"""Everything that is written in an unusual way so that the linter starts fast: it runs for every file an editor saves.

Cold start of `verblint check` on a model of eleven steps, processor time, when one of these is written in the usual way
(Python 3.11, 17 November 2026, 15 interleaved starts, least and median):

    value           `dataclasses` instead                               2.4 x, 2.3 x
    TYPE_CHECKING   imported from `typing`, which is then loaded        1.12 x, 1.10 x
    pattern         `re.compile` when a module is imported              1.09 x, 1.05 x
    NoCollection    imports with the garbage collector on               1.04 x (instructions, callgrind)
    help_width      argparse's own formatter, with any option           1.04 x (instructions, callgrind)

Beyond this package, modules that few runs need (YAML, JSON, argparse, difflib) are imported where they are used, and
`verblint.rules.index` imports a family of rules only for files that need it. A test lists what a clean model must not
load.
"""

import gc

# Type checkers take this name for true, wherever it is imported from.
TYPE_CHECKING = False


class NoCollection:
    """A block of imports, which create many objects and no garbage. Afterwards the collector is as it was before."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()
            if not gc.get_freeze_count():
                # Both together make all objects old ones; else the next allocation would start the first collection.
                gc.freeze()
                gc.unfreeze()
