"""Regular expressions compiled on first use: most files never need most of them."""

import re

from verblint.startup import TYPE_CHECKING

if TYPE_CHECKING:
    # To type checkers and callers it is the compiled pattern.
    pattern = re.compile
else:

    class pattern:  # noqa: N801  it replaces a function
        """A pattern that compiles itself when one of its methods is first used."""

        def __init__(self, text, flags=0):
            self._source = text, flags

        def __getattr__(self, name):
            compiled = re.compile(*self._source)
            for method in ("match", "fullmatch", "search", "finditer", "findall"):
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)
