"""What a client returns about incidents; HTTP and `--json` have the same models."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from verbworker.app.engine_links import EngineLinks
from verbworker.stores.cases.overview import Trouble

_LOOK = ConfigDict(frozen=True, from_attributes=True)


class IncidentRecord(BaseModel):
    """Something that waits for an operator: a held job, or an element where the engine cannot go on."""

    model_config = _LOOK

    incident_id: UUID | None = Field(description="its id; null for a held job that belongs to no entry")
    engine_id: str
    job_key: int | None = Field(description="the job that stopped; null if an element stopped without one")
    entry_id: UUID | None
    element_id: str
    reason: str
    since: datetime
    sentence: str | None
    verb: str | None
    state: str | None
    runs: int | None
    retries_left: int | None
    fail_class: str | None
    fail_code: str | None
    fail_text: str | None
    instance_key: int | None
    incident_key: int | None = Field(description="the key of the engine's incident, if it is known")
    incident_type: str | None = Field(description="the engine's type of it, such as JOB_NO_RETRIES")
    incident_text: str | None = Field(description="the engine's own sentence")
    process_id: str | None
    is_plain: bool = Field(description="whether it belongs to a plain process, which has no entry")
    operate_url: str | None = Field(description="its instance in Operate, if an address is set")

    which: UUID | int | None = Field(description="what names it: its id, or else the key of its job or incident")
    kind: str = Field(description="the engine's type, or else the code of the held job")
    why: str = Field(description="why it stopped: what the verb said, or else the engine")
    subject: str = Field(description="what it stops: what was asked, or a plain process")

    @classmethod
    def of(cls, trouble: Trouble, links: EngineLinks) -> Self:
        """Return the record of an incident."""
        stored = {name: getattr(trouble, name) for name in trouble.__dataclass_fields__}
        said = trouble.fail_text if trouble.state == "incident" else None
        words = {
            "operate_url": links.instance(trouble.instance_key),
            "which": trouble.incident_id or trouble.job_key or trouble.incident_key,
            "kind": trouble.incident_type or trouble.fail_code or "held",
            "why": said or trouble.incident_text or trouble.reason,
            "subject": _subject(trouble),
        }
        return cls.model_validate({**stored, **words})


class IncidentPage(BaseModel):
    """Some incidents of a list, and where the next ones start."""

    model_config = _LOOK

    incidents: tuple[IncidentRecord, ...]
    next: str | None = Field(description="the cursor of the next page; null on the last one")


class StoryLine(BaseModel):
    """One thing that happened to a job."""

    model_config = _LOOK

    at: datetime
    text: str


class IncidentDetail(IncidentRecord):
    """An incident with the story of its job."""

    headline: str = Field(description="the job in one sentence; empty if it has no frame")
    story: tuple[StoryLine, ...]

    @staticmethod
    def with_story(record: IncidentRecord, headline: str, story: Sequence[object]) -> "IncidentDetail":
        """Return the record with what happened to its job."""
        told = [StoryLine.model_validate(line) for line in story]
        return IncidentDetail.model_validate({**record.model_dump(), "headline": headline, "story": told})


class IncidentResolution(BaseModel):
    """What resolving an incident did; who did it and why is in the entry's events."""

    model_config = _LOOK

    incident_id: UUID | None
    entry_id: UUID | None
    job_key: int | None
    by: str
    sentence: str


def _subject(trouble: Trouble) -> str:
    if trouble.is_plain:
        return f"plain process {trouble.process_id}, instance {trouble.instance_key}"
    return trouble.sentence or f"a job without an entry, instance {trouble.instance_key}"
