"""Patterns that are compiled when they are first used: most files never meet most of them."""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    # To a type checker, and to whoever uses it, it is the compiled pattern.
    pattern = re.compile
else:

    class pattern:  # noqa: N801  it stands for a function
        """A pattern that becomes the compiled one at the first use of any of its methods."""

        def __init__(self, text, flags=0):
            self._source = text, flags

        def __getattr__(self, name):
            compiled = re.compile(*self._source)
            for method in ("match", "fullmatch", "search", "finditer", "findall"):
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)
