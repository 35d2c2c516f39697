"""Everything that is written in an unusual way so that the linter starts fast: it runs for every file an editor saves.

Cold start of `verblint check` on a model of eleven steps, processor time, when one of these is written in the usual way
(Python 3.11, 17 November 2026, 15 interleaved starts, least and median):

    value           `dataclasses` instead                               2.4 x, 2.3 x
    TYPE_CHECKING   imported from `typing`, which is then loaded        1.12 x, 1.10 x
    pattern         `re.compile` when a module is imported              1.09 x, 1.05 x

Beyond this package, modules that few runs need (YAML, JSON, argparse, difflib) are imported where they are used, and
`verblint.rules.index` imports a family of rules only for files that need it. A test lists what a clean model must not
load.
"""

# Type checkers take this name for true, wherever it is imported from.
TYPE_CHECKING = False
