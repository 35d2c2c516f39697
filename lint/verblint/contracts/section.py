"""A section: one mapping of a YAML document that knows its place and notes what is wrong with its fields."""

from collections.abc import Iterable, Iterator
from re import compile as pattern

from verblint.bpmn.source import Position
from verblint.contracts.strict_yaml import Path, Value, YamlDocument, YamlError, name_of
from verblint.names import nearest
from verblint.startup.value import field, value


@value
class ContractFault:
    """One thing that is wrong in a contract: the file, the place, the field and a sentence."""

    file: str
    line: int
    column: int
    field: str
    message: str

    @classmethod
    def of(cls, error: YamlError) -> "ContractFault":
        """A refusal of the YAML reader as a fault."""
        return cls(error.file, error.line, error.column, name_of(error.path), error.message)

    def __str__(self) -> str:
        named = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}:{self.column}: {named}{self.message}"


@value
class FieldShape:
    """How a text must be written: an expression for us and a description for people."""

    expression: str
    description: str

    def fits(self, text: str) -> bool:
        """True when the whole text has this shape."""
        return pattern(self.expression).fullmatch(text) is not None


@value
class Section:
    """Reads the fields of a mapping by name and type.

    What is missing or of another type becomes a fault and a harmless default, so that one reading reports
    everything at once.
    """

    document: YamlDocument
    path: Path
    faults: list[ContractFault] = field(default_factory=list)

    @property
    def members(self) -> dict[str, Value]:
        """The mapping itself; empty when there is none."""
        value = self.value()
        return value if isinstance(value, dict) else {}

    @property
    def position(self) -> Position:
        """Where the section was written."""
        return self.document.where(self.path)

    def value(self, *steps: str | int) -> Value:
        """The value some steps below the section, or None."""
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
        """Note what is wrong with a field."""
        path = (*self.path, *steps)
        line, column = self.document.where(path)
        self.faults.append(ContractFault(self.document.file, line, column, name_of(path), message))

    def only(self, known: Iterable[str]) -> None:
        """Note every field that is not known; a typo must not silently switch off a check."""
        known = sorted(known)
        for name in self.members:
            if name not in known:
                near = nearest(name, known)
                self.fault(f"unknown field; did you mean {near}?" if near else "unknown field", name)

    def text(self, name: str, *, default: str | None = None, like: FieldShape | None = None) -> str:
        """A text, required unless there is a default."""
        return self._checked_text(self.value(name), default, like, name)

    def integer(self, name: str, *, least: int, default: int | None = None) -> int:
        """An integer of at least so much, required unless there is a default."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fault(f"must be an integer of {least} or more", name)
            return least
        return value

    def texts(self, name: str, *, like: FieldShape | None = None) -> tuple[str, ...]:
        """A list of different texts; empty when the field is missing."""
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
        """A mapping from text to text; empty when the field is missing."""
        section = self.section(name)
        return {key: section.text(key, like=like) for key in section.members}

    def section(self, name: str) -> "Section":
        """The mapping in a field; empty when the field is missing."""
        value = self.value(name)
        if value is not None and not isinstance(value, dict):
            self.fault("must be a mapping", name)
        return Section(self.document, (*self.path, name), self.faults)

    def sections(self, name: str) -> Iterator["Section"]:
        """The mappings in a list of mappings."""
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
