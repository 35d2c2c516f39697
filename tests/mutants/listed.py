"""The lists of mutants, `*.toml` beside this file, and what makes one of them stale."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from verblint.rules.index import rules

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file, the requirement it breaks, and the tests of which one must go red."""

    req: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """The requirement and the place, for people."""
        return f"{self.req} {self.file}:{self._line()}"

    def applied(self, text: str) -> str:
        """The text of the file with the change in it."""
        return text.replace(self.old, self.new)

    def _line(self) -> int:
        before, found, _ = _text(self.file).partition(self.old)
        return before.count("\n") + 1 if found else 0


def listed() -> list[Mutant]:
    """Every mutant of every list, in order."""
    return [mutant for place in sorted(Path(__file__).parent.glob("*.toml")) for mutant in read(place.read_text())]


def read(text: str) -> Iterator[Mutant]:
    """The mutants of one list."""
    for entry in tomllib.loads(text)["mutant"]:
        named = entry.pop("test")
        yield Mutant(tests=(named,) if isinstance(named, str) else tuple(named), **entry)


def staleness(mutant: Mutant) -> Iterator[str]:
    """Why a mutant does not fit the code and the tests as they are; nothing where it does."""
    text = _text(mutant.file)
    if (count := text.count(mutant.old)) != 1:
        yield f"{mutant.name}: its old text is there {count} times, not once: {mutant.old!r}"
    elif mutant.applied(text) == text:
        yield f"{mutant.name}: it changes nothing"
    elif mutant.file.endswith(".py") and (fault := _syntax_fault(mutant.applied(text))):
        yield f"{mutant.name}: the changed file is no Python ({fault})"
    for test in mutant.tests:
        marks = _marks(test)
        if marks is None:
            yield f"{mutant.name}: there is no test {test}"
        elif mutant.req not in marks:
            yield f"{mutant.name}: {test} is not marked with {mutant.req}"


def _syntax_fault(text: str) -> str | None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return error.msg
    return None


@cache
def _text(file: str) -> str:
    place = ROOT / file
    return place.read_text() if place.is_file() else ""


def _marks(test: str) -> set[str] | None:
    """The requirements that a test, one of its cases, its class or its module is marked with; None if there is no test.

    A case of a rule of the linter proves that rule, by its code.
    """
    file, *path = test.partition("[")[0].split("::")
    if not path or not _text(file):
        return None
    place: object = import_module(file.removesuffix(".py").replace("/", "."))
    found = set(_ids(place))
    for name in path:
        place = getattr(place, name, None)
        if place is None:
            return None
        found |= set(_ids(place))
    return found | {rule.code for rule in rules() if f"[{rule.slug}-invalid" in test}


def _ids(place: object) -> Iterator[str]:
    """The words of every `pytest.mark.req(...)` on an object and on the cases that it is parametrised with."""
    marks = getattr(place, "pytestmark", [])
    for mark in marks if isinstance(marks, list) else [marks]:
        if mark.name == "req":
            yield from mark.args
        for case in mark.args[1] if mark.name == "parametrize" else ():
            for inner in getattr(case, "marks", ()):
                yield from inner.args if inner.name == "req" else ()
