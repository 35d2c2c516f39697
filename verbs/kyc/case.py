"""The case: what is known of one customer while we find out whether we may do business."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from verbworker import PermanentContract

CaseType = Literal["onboarding", "periodic-review", "event-driven"]
_DAYS = r"\d{1,4}D"
_HOURS = r"T(\d{1,4}H)?(\d{1,4}M)?"
ISO_DURATION = rf"^P({_DAYS}|({_DAYS})?(T\d{{1,4}}H|T(\d{{1,4}}H)?\d{{1,4}}M|{_HOURS}\d{{1,4}}S))$"


class _Part(BaseModel):
    """A part of the case; a verb answers a changed copy and never changes what it was given."""

    model_config = ConfigDict(frozen=True)


class Paper(_Part):
    """A document the customer sent: what it is, and where its content lies."""

    kind: str
    reference: str


class Documents(_Part):
    """What was asked for, what came, and whether the request was taken back."""

    requested: tuple[str, ...] = ()
    received: tuple[Paper, ...] = ()
    missing: tuple[str, ...] = ()
    withdrawn: bool = False


class Screening(_Part):
    """The sanctions screening: the provider's own number for it, and how many lists were looked at."""

    reference: str
    lists: int


class Review(_Part):
    """What the reviewer decided."""

    decision: Literal["approved", "rejected"]
    reason: str
    by: str
    at: datetime


class KycCase(_Part):
    """One customer's case."""

    entity: str
    case_type: CaseType
    review_within: str | None = Field(default=None, pattern=ISO_DURATION)
    case_id: UUID | None = None
    documents: Documents = Documents()
    screening: Screening | None = None
    reviewer: str | None = None
    escalated_to: str | None = None
    review: Review | None = None
    closed: bool = False

    @property
    def number(self) -> UUID:
        """The case's number; raises `PermanentContract` while the case has no record."""
        if self.case_id is None:
            raise PermanentContract("the case has no record yet", code="CaseWithoutRecord")
        return self.case_id
