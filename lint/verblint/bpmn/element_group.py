"""Elements that are alike: all of one name in a file.

Most rules ask the same of every element of a name, and most files answer all of them in the same way. What is asked
here is worked out once for all rules, and for all elements at a time.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from verblint.bpmn.element import Element


class ElementGroup(list["Element"]):
    """The elements of one name, in document order. Ask when the file is read: answers are kept."""

    __slots__ = ("_columns", "_keys", "_rows")

    def __init__(self) -> None:
        self._rows: list[Mapping[str, str]] = []
        self._keys: set[str] = set()
        self._columns: dict[str, list[str]] = {}

    @property
    def keys(self) -> set[str]:
        """The keys of the attributes that at least one of them has."""
        if not self._rows:
            self._rows = [element.values for element in self]
            self._keys = self._keys.union(*self._rows)
        return self._keys

    def column(self, key: str) -> list[str]:
        """The values of an attribute, of those that have it."""
        column = self._columns.get(key)
        if column is None:
            column = [row[key] for row in self._rows if key in row] if key in self.keys else []
            self._columns[key] = column
        return column

    def all_have(self, key: str) -> bool:
        """True when every one of them has an attribute, and none has it empty."""
        column = self.column(key)
        return len(column) == len(self) and "" not in column
