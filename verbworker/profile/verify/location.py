"""A spot: the place a person must look at, in a model, a contract, a policies file or a lock."""

import os
from dataclasses import dataclass
from typing import Any

from verblint.bpmn.element import Element, Place
from verblint.contracts.contract import Origin
from verblint.contracts.strict_yaml import Path as Steps
from verblint.contracts.strict_yaml import YamlDocument
from verblint.report.finding import Finding
from verblint.rulebook.rule import Rule

WRITE = "Run verbworker verify --write"


@dataclass(frozen=True, slots=True)
class Location:
    """A stretch of a file; lines and columns count from 1, and the end is the first character behind it."""

    file: str
    line: int = 1
    column: int = 1
    end_line: int = 1
    end_column: int = 1
    element: Element | None = None

    @classmethod
    def at(cls, file: str, line: int = 1, column: int = 1, width: int = 0) -> "Location":
        """So many characters of a line."""
        return cls(file, line, column, line, column + width)

    @classmethod
    def of(cls, file: str, where: Place | Element) -> "Location":
        """A place in a model."""
        place = where if isinstance(where, Place) else where.place
        return cls(file, *place.position, *place.end_position, place.element)

    @classmethod
    def origin(cls, origin: Origin) -> "Location":
        """Where a contract was written."""
        return cls.at(origin.file, origin.line, origin.column)

    @classmethod
    def written(cls, document: YamlDocument, steps: Steps) -> "Location":
        """Where a part of a YAML file was written."""
        last = steps[-1] if steps in document.positions else ""
        return cls.at(document.file, *document.where(steps), len(last) if isinstance(last, str) else 0)

    def finding(self, rule: Rule, message: str, *, hint: str = WRITE, process: str = "", detail: str = "") -> Finding:
        """What is wrong here, as the linter says it. `detail` tells two findings of one rule apart."""
        about: dict[str, Any] = {}
        if (owner := _owner(self.element)) is not None:
            about = {"element_id": owner.id, "element_name": owner.get("name") or "", "element_type": owner.local}
        return Finding(
            code=rule.code,
            slug=rule.slug,
            severity=rule.severity,
            message=message,
            file=self.file,
            line=self.line,
            column=self.column,
            end_line=self.end_line,
            end_column=self.end_column,
            hint=hint,
            process_id=process,
            detail=detail,
            **about,
        )


def shown(path: str) -> str:
    """A path as people see it from here: relative when it lies below the working directory."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near


def _owner(element: Element | None) -> Element | None:
    """The nearest element with an id, which is what people know it by."""
    if element is None:
        return None
    return next((e for e in (element, *element.ancestors) if e.id), element)
