"""A section: one mapping of a YAML document that knows its position and records faults in its fields."""

from collections.abc import Iterable, Iterator
from re import compile as pattern

from verblint.bpmn.source import Position
from verblint.contracts.strict_yaml import Path, Value, YamlDocument, YamlError, name_of
from verblint.names import nearest
from verblint.startup.value import field, value


@value
class ContractFault:
    """One error in a contract: the file, position, field and message."""

    file: str
    line: int
    column: int
    field: str
    message: str

    @classmethod
    def of(cls, error: YamlError) -> "ContractFault":
        """Create a fault from an error of the YAML reader."""
        return cls(error.file, error.line, error.column, name_of(error.path), error.message)

    def __str__(self) -> str:
        named = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}:{self.column}: {named}{self.message}"


@value
class FieldShape:
    """The format of a text: a regular expression, and a description for messages."""

    expression: str
    description: str

    def fits(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return pattern(self.expression).fullmatch(text) is not None


@value
class Section:
    """Reads the fields of a mapping by name and type.

    A missing field or a wrong type becomes a fault and a harmless default, so that one pass reports every fault.
    """

    document: YamlDocument
    path: Path
    faults: list[ContractFault] = field(default_factory=list)

    @property
    def members(self) -> dict[str, Value]:
        """The mapping itself; empty if it is missing."""
        value = self.value()
        return value if isinstance(value, dict) else {}

    @property
    def position(self) -> Position:
        """The position of the section."""
        return self.document.where(self.path)

    def value(self, *steps: str | int) -> Value:
        """Return the value at a path below the section, or None."""
        value = self.document.value
        for step in (*self.path, *steps):
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int):
                value = value[step]
            else:
                return None
        return value

    def fault(self, message: str, *steps: str | int) -> None:
        """Record a fault in a field."""
        path = (*self.path, *steps)
        line, column = self.document.where(path)
        self.faults.append(ContractFault(self.document.file, line, column, name_of(path), message))

    def only(self, known: Iterable[str]) -> None:
        """Record every unknown field as a fault; a typo must not silently disable a check."""
        known = sorted(known)
        for name in self.members:
            if name not in known:
                near = nearest(name, known)
                self.fault(f"unknown field; did you mean {near}?" if near else "unknown field", name)

    def text(self, name: str, *, default: str | None = None, like: FieldShape | None = None) -> str:
        """Return a text, required unless there is a default."""
        return self._checked_text(self.value(name), default, like, name)

    def integer(self, name: str, *, least: int, default: int | None = None) -> int:
        """Return an integer of at least `least`, required unless there is a default."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fault(f"must be an integer of {least} or more", name)
            return least
        return value

    def texts(self, name: str, *, like: FieldShape | None = None) -> tuple[str, ...]:
        """Return a list of distinct texts; empty if the field is missing."""
        value = self.value(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fault("must be a list", name)
            return ()
        texts = [self._checked_text(item, None, like, name, index) for index, item in enumerate(value)]
        for index, text in enumerate(texts):
            if text in texts[:index]:
                self.fault(f"{text} is listed twice", name, index)
        return tuple(texts)

    def pairs(self, name: str, *, like: FieldShape | None = None) -> dict[str, str]:
        """Return a mapping from text to text; empty if the field is missing."""
        section = self.section(name)
        return {key: section.text(key, like=like) for key in section.members}

    def section(self, name: str) -> "Section":
        """Return the mapping in a field; empty if the field is missing."""
        value = self.value(name)
        if value is not None and not isinstance(value, dict):
            self.fault("must be a mapping", name)
        return Section(self.document, (*self.path, name), self.faults)

    def sections(self, name: str) -> Iterator["Section"]:
        """Yield the mappings in a list of mappings."""
        value = self.value(name)
        if not isinstance(value, list):
            self.fault("must be a list", name)
            return
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield Section(self.document, (*self.path, name, index), self.faults)
            else:
                self.fault("must be a mapping", name, index)

    def _checked_text(self, value: Value, default: str | None, like: FieldShape | None, *steps: str | int) -> str:
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            self.fault("must be a text" if value is not None else "is missing", *steps)
            return ""
        if like is not None and not like.fits(value):
            self.fault(f"{value!r} is not {like.description}", *steps)
        return value
