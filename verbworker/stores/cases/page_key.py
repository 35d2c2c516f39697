"""The place of a row in a list that is read in pages."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class PageKey:
    """Start of a page: the moment and the id of the row before it."""

    at: datetime
    row_id: UUID
