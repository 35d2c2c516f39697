"""The pages of the documentation as a reader meets them: in their order, with files to write and lines to type."""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.cli_walk import shell_blocks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<options>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
_TITLE = re.compile(r'title="([^"]+)"')
SHORT = "The documentation's site has this page in full"
"""What the repository's short form of a generated page says."""
_SNIPPET = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code: its language, the file it is if it has a title, and its text."""

    language: str
    title: str
    text: str

    @property
    def is_file(self) -> bool:
        """Whether the reader writes it into a file."""
        return bool(self.title) and self.language != "sh"

    @property
    def lines(self) -> list[str]:
        """The lines that a reader types."""
        (found,) = shell_blocks(f"```sh\n{self.text}```") or [[]]
        return found

    def write(self, folder: Path) -> Path:
        """Write the file, append to it, or change one function of it."""
        name, _, action = self.title.partition(" (")
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        match action.removesuffix(")").split():
            case []:
                file.write_text(self.text)
            case ["append"]:
                file.write_text(file.read_text() + self.text)
            case ["change", function]:
                file.write_text(_change(file.read_text(), function, self.text))
            case _:
                raise AssertionError(f"{self.title} names nothing that a reader does with a file")
        return file


@dataclass(frozen=True, slots=True)
class Page:
    """One page, by its path below docs."""

    name: str
    text: str

    @property
    def blocks(self) -> list[Block]:
        """Every block, with the files that it includes."""
        return list(_blocks(self.text))

    @property
    def lines(self) -> list[str]:
        """Every line that a reader types."""
        return [line for block in self.blocks if block.language == "sh" for line in block.lines]


def _change(source: str, function: str, text: str) -> str:
    """Put another text into the place of a function and its decorators."""
    (found,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    )
    first = min(node.lineno for node in (found, *found.decorator_list))
    lines = source.splitlines(keepends=True)
    return "".join([*lines[: first - 1], text, *lines[found.end_lineno or first :]])


def _blocks(text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        title = _TITLE.search(found["options"])
        body = textwrap.dedent(found["text"]) if found["indent"] else found["text"]
        content = _SNIPPET.sub(lambda snippet: (ROOT / snippet[1]).read_text().rstrip("\n"), body)
        yield Block(found["language"], title[1] if title else "", content)


def _navigation(part: Any) -> Iterator[str]:
    match part:
        case str():
            yield part
        case list():
            for inner in part:
                yield from _navigation(inner)
        case dict():
            yield from _navigation(list(part.values()))


def settings() -> dict[str, Any]:
    """What mkdocs.yml says."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    return found


def pages() -> list[Page]:
    """Every page that is written by hand, in the order of the navigation."""
    names = [name for name in _navigation(settings()["nav"]) if (DOCS / name).exists()]
    found = [Page(name, (DOCS / name).read_text()) for name in names]
    return [page for page in found if SHORT not in page.text]


def page(name: str) -> Page:
    """One page."""
    return Page(name, (DOCS / name).read_text())
