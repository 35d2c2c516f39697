"""The location of a finding in a model, a contract, a policies file or a lock."""

import os
from dataclasses import dataclass
from typing import Any

from verblint.bpmn.element import Element, Place
from verblint.contracts.contract import Origin
from verblint.report import Finding
from verblint.rule import Rule, owner_of

WRITE = "Run verbworker verify --write"


@dataclass(frozen=True, slots=True)
class Location:
    """A range in a file; lines and columns count from 1, and the end is exclusive."""

    file: str
    line: int = 1
    column: int = 1
    end_line: int = 1
    end_column: int = 1
    element: Element | None = None

    @classmethod
    def at(cls, file: str, line: int = 1, column: int = 1, width: int = 0) -> "Location":
        """Return `width` characters of a line."""
        return cls(file, line, column, line, column + width)

    @classmethod
    def of(cls, file: str, where: Place | Element) -> "Location":
        """Return a place in a model."""
        place = where if isinstance(where, Place) else where.place
        return cls(file, *place.position, *place.end_position, place.element)

    @classmethod
    def origin(cls, origin: Origin) -> "Location":
        """Return where a part of a contract file is, as wide as its key."""
        last = origin.path[-1] if origin.path and origin.path in origin.positions else ""
        line, column = origin.position
        return cls.at(origin.file, line, column, len(last) if isinstance(last, str) else 0)

    def finding(self, rule: Rule, message: str, *, hint: str = WRITE, process: str = "", detail: str = "") -> Finding:
        """Return a finding at this location, as the linter reports it. `detail` distinguishes findings of one rule."""
        about: dict[str, Any] = {}
        if self.element is not None:
            owner = owner_of(self.element)
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


def display_path(path: str) -> str:
    """Return a path for display: relative if it is below the working directory."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near
