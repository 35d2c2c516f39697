"""Strict YAML: mappings, lists, strings, true, false, null and decimal numbers, each with its line and column.

Anything that two tools may read differently is rejected: anchors and aliases, tags, merge keys, duplicate keys, several
documents, and plain words that some version of YAML does not read as text (`no`, `012`, `1e3`, `2026-01-01`, `0o17`).
Quoted values are always text.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator
from re import compile as pattern
from typing import NoReturn, Protocol

import yaml

from verblint.bpmn.source import Position
from verblint.contracts.contract import MAX_INTEGER, Origin, Steps
from verblint.contracts.syntax import INTEGER
from verblint.startup.value import value

MAX_SIZE = 256 * 1024  # bytes; contracts are written by hand
MAX_DEPTH = 32  # bounds the recursion

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}
_INTEGER = pattern(INTEGER)
_FLOAT = pattern(rf"{INTEGER}\.[0-9]+")
# Numbers in YAML 1.2 that our parser, which reads YAML 1.1, takes for text.
_NUMBER_ELSEWHERE = pattern(r"[-+]?(?:0o[0-7]+|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)")
_TEXT_TAG = "tag:yaml.org,2002:str"


@value
class ContractFault:
    """One error in a contract: the file, position, field and message."""

    file: str
    line: int
    column: int
    field: str
    message: str

    @classmethod
    def at(cls, origin: Origin, message: str) -> "ContractFault":
        """Create a fault in a part of a file."""
        return cls(origin.file, *origin.position, name_of(origin.path), message)

    def __str__(self) -> str:
        named = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}:{self.column}: {named}{self.message}"


class YamlError(Exception):
    """A file that is not strict YAML."""

    def __init__(self, message: str, file: str, position: Position, path: Steps = ()) -> None:
        self.fault = ContractFault(file, *position, name_of(path), message)
        super().__init__(str(self.fault))


@value
class YamlDocument:
    """One YAML document: its value, and where each part is."""

    value: Value
    origin: Origin


def load(content: bytes, file: str = "<bytes>") -> YamlDocument:
    """Return the single document in a file, or raise YamlError."""
    if len(content) > MAX_SIZE:
        raise YamlError(f"the file has {len(content):,} bytes; {MAX_SIZE:,} is the most", file, Position(1, 1))
    # The codec utf-8-sig would count error positions from after the mark.
    content = content.removeprefix(BOM_UTF8)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise YamlError("the file is not UTF-8", file, _position_of(content, error.start)) from None
    return _Loading(file).run(text)


def name_of(path: Steps) -> str:
    """Format a path for messages: `flags.orch_x.values[2]`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


class _Loading:
    """One pass over the events of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._positions: dict[Steps, Position] = {(): Position(1, 1)}
        self._events: Iterator[yaml.Event] = iter(())
        self._resolver = yaml.resolver.Resolver()

    def run(self, text: str) -> YamlDocument:
        """Read the document and ensure that it is the only one."""
        try:
            self._events = yaml.parse(text, Loader=yaml.SafeLoader)
            return YamlDocument(self._document(), Origin(self._file, self._positions))
        except yaml.MarkedYAMLError as error:
            place = _position_at(error.problem_mark)
            raise YamlError(f"not YAML: {error.problem}", self._file, place) from None
        except yaml.reader.ReaderError as error:
            raise YamlError(f"not YAML: {error.reason}", self._file, _position(text, error.position)) from None
        except (ValueError, OverflowError):
            # PyYAML passes escapes beyond Unicode to chr() unchecked.
            raise YamlError("not YAML: an escape names no character", self._file, Position(1, 1)) from None

    def _document(self) -> Value:
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), ())
        next(self._events)
        extra = next(self._events)
        if not isinstance(extra, yaml.StreamEndEvent):
            self._refuse("the file holds more than one document", extra, ())
        return value

    def _value(self, event: yaml.Event, path: Steps) -> Value:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            self._refuse("anchors and aliases are not allowed; write the value out", event, path)
        if getattr(event, "tag", None) is not None:
            self._refuse("tags are not allowed; write a plain or a quoted value", event, path)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if len(path) >= MAX_DEPTH:
            self._refuse(f"nested more than {MAX_DEPTH} deep", event, path)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        return self._sequence(path)

    def _mapping(self, path: Steps) -> dict[str, Value]:
        members: dict[str, Value] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._refuse("a key must be text", event, path)
            key = self._value(event, path)
            if not isinstance(key, str):
                self._refuse(f"the key {event.value} is not text; write it in quotes", event, path)
            inner = (*path, key)
            if key in members:
                first = self._positions[inner]
                self._refuse(f"the key {key} was already given in line {first.line}", event, inner)
            self._positions[inner] = _start(event)
            members[key] = self._value(next(self._events), inner)
        return members

    def _sequence(self, path: Steps) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            inner = (*path, len(items))
            self._positions[inner] = _start(event)
            items.append(self._value(event, inner))
        return items

    def _scalar(self, event: yaml.ScalarEvent, path: Steps) -> Value:
        text = event.value
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            self._refuse("the text holds half a surrogate pair", event, path)
        if not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return self._integer(text, event, path)
        if _FLOAT.fullmatch(text) and len(text) <= 24:
            return float(text)
        if _NUMBER_ELSEWHERE.fullmatch(text) or self._surprises(text):
            self._refuse(f'{text} means different things to different tools; write "{text}" for text', event, path)
        return text

    def _integer(self, text: str, event: yaml.Event, path: Steps) -> int:
        if len(text) > 17 or abs(int(text)) > MAX_INTEGER:
            self._refuse(f"the number is too large; {MAX_INTEGER} is the most", event, path)
        return int(text)

    def _surprises(self, text: str) -> bool:
        """Return whether YAML 1.1 takes a plain word for something other than text."""
        # The stubs leave this one method untyped.
        tag: str = self._resolver.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        return tag != _TEXT_TAG

    def _refuse(self, message: str, event: yaml.Event, path: Steps) -> NoReturn:
        raise YamlError(message, self._file, _start(event), path)


class _Mark(Protocol):
    """A position in PyYAML, counted from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


def _start(event: yaml.Event) -> Position:
    return _position_at(event.start_mark)


def _position_at(mark: _Mark | None) -> Position:
    return Position(mark.line + 1, mark.column + 1) if mark is not None else Position(1, 1)


def _position(text: str, index: int) -> Position:
    before = text[:index]
    return Position(before.count("\n") + 1, index - before.rfind("\n"))


def _position_of(content: bytes, offset: int) -> Position:
    before = content[:offset].decode()
    return _position(before, len(before))
