"""Elements that are alike: all of one name in a file.

Most rules ask the same of every element of a name, and most files answer all of them in the same way. What is asked
here is worked out once for all rules, and for all elements at a time.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from verblint.element import Element


class Alike(list["Element"]):
    """The elements of one name, in document order. Ask when the file is read: answers are kept."""

    __slots__ = ("_columns", "_keys")

    def __init__(self) -> None:
        self._columns: dict[str, list[str]] = {}
        self._keys: set[str] | None = None

    @property
    def keys(self) -> set[str]:
        """The keys of the attributes that at least one of them has."""
        if self._keys is None:
            none: set[str] = set()
            self._keys = none.union(*[element.values for element in self])
        return self._keys

    def column(self, key: str) -> list[str]:
        """The values of an attribute, of those that have it."""
        column = self._columns.get(key)
        if column is None:
            values = [element.values for element in self]
            column = self._columns[key] = [each[key] for each in values if key in each]
        return column

    def all_have(self, key: str) -> bool:
        """True when every one of them has an attribute, and none has it empty."""
        column = self.column(key)
        return len(column) == len(self) and "" not in column
