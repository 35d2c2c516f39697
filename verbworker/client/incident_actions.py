"""What a client does with incidents: list and find them, tell the story of their job, and resolve them."""

import re
from collections.abc import Iterable, Sequence
from uuid import UUID

from verbworker.app.engine_links import EngineLinks
from verbworker.app.explain import explain, headline
from verbworker.client.cursors import next_cursor, parse_cursor
from verbworker.client.incident_records import IncidentDetail, IncidentPage, IncidentRecord, IncidentResolution
from verbworker.client.resources import Resources
from verbworker.contract.text import require_name, require_text
from verbworker.errors import InvocationInvalid, NotFound, RequestConflict
from verbworker.stores.cases.overview import Overview, Trouble
from verbworker.stores.id_prefixes import IdPrefixes
from verbworker.stores.jobs.histories import Histories
from verbworker.work.upkeep.resolutions import Resolution, Resolutions

MOST_RETRIES = 1000
"""The most retries that one resolution grants: more is a typing mistake."""

_LONGEST_NAME = 256  # characters; as long as the name of a credential
_LONGEST_REASON = 4000  # characters; people write them
_LARGEST_KEY = 2**63 - 1  # a bigint
_MOST_DIGITS = 19  # of that key


def read_flags(texts: Iterable[str]) -> dict[str, str | int]:
    """Return flags that a person wrote as `name=value`; true, false and whole numbers are not text.

    Raises `InvocationInvalid` for anything else.
    """
    flags: dict[str, str | int] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or not equals:
            raise InvocationInvalid(f"{text[:60]!a} is not a flag; write name=value, such as orch_approved=true")
        words = {"true": True, "false": False}
        is_number = re.fullmatch(r"-?[0-9]{1,15}", value) is not None
        flags[name] = int(value) if is_number else words.get(value, value.strip('"'))
    return flags


class IncidentActions:
    """The incidents of one tenant; with `without_entry` also held jobs that belong to no entry of any tenant."""

    def __init__(self, resources: Resources, tenant: str, *, without_entry: bool = False) -> None:
        self._resources = resources
        self._tenant = tenant
        self._without_entry = without_entry
        self._overview = Overview(resources.database)
        self._links = EngineLinks.of(resources.settings)

    async def list(self, *, limit: int, cursor: str | None) -> IncidentPage:
        """Return a page of the open incidents, the longest wait first."""
        found = await self._overview.troubles(
            self._tenant, without_entry=self._without_entry, after=parse_cursor(cursor), limit=limit + 1
        )
        rows = tuple(IncidentRecord.of(one, self._links) for one in found[:limit])
        return IncidentPage(incidents=rows, next=next_cursor([one.key for one in found], limit))

    async def read(self, where: UUID | str | int) -> IncidentDetail:
        """Return one incident with the story of its job."""
        trouble = await self._find(where)
        history = None
        if trouble.job_key is not None:
            histories = Histories(self._resources.database, engine_id=trouble.engine_id)
            history = await histories.read(trouble.job_key)
        record = IncidentRecord.of(trouble, self._links)
        if history is None:
            return IncidentDetail.with_story(record, "", ())
        return IncidentDetail.with_story(record, headline(history.frame), explain(history))

    async def resolve(self, where: UUID | str | int, wanted: Resolution) -> IncidentResolution:
        """Resolve an incident; raises `RequestConflict` if it cannot be resolved."""
        require_name("the name of who resolves", wanted.by, _LONGEST_NAME)
        require_text("the reason", wanted.reason, _LONGEST_REASON)
        if not 1 <= wanted.retries <= MOST_RETRIES:
            raise InvocationInvalid(f"the number of retries must be from 1 to {MOST_RETRIES}")
        from verbworker.app.wiring import choose_engine  # gRPC takes a third of a second

        trouble = await self._find(where)
        async with choose_engine(self._resources.settings, is_working=False) as engine:
            resolutions = Resolutions(self._resources.database, engine, owner=self._resources.owner)
            answer = await resolutions.resolve(trouble, wanted)
        if not answer.done:
            raise RequestConflict(answer.sentence)
        return IncidentResolution(
            incident_id=trouble.incident_id,
            entry_id=trouble.entry_id,
            job_key=trouble.job_key,
            by=wanted.by,
            sentence=answer.sentence,
        )

    async def _find(self, where: UUID | str | int) -> Trouble:
        """Return the incident that its id, its entry, or the key of its job or incident names."""
        found = [] if isinstance(where, UUID) else await self._by_key(str(where))
        if not found and not isinstance(where, int):
            prefixes = IdPrefixes(self._resources.database, self._tenant)
            more = self._without_entry
            which: UUID
            if isinstance(where, UUID):
                which = where
            else:
                which = await prefixes.entry_or_incident(where, without_entry=more)
            found = await self._overview.find_troubles(self._tenant, where=which, key=None, without_entry=more)
        match found:
            case []:
                raise NotFound(f"no open incident of the tenant {self._tenant} is named {where}")
            case [one]:
                return one
        several = ", ".join(str(one.incident_id or one.job_key or one.incident_key) for one in found)
        raise RequestConflict(f"{where} has several incidents: {several}; name one of them")

    async def _by_key(self, text: str) -> Sequence[Trouble]:
        """Return the incidents of a job or incident key; a text that is no key has none."""
        if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) > _LARGEST_KEY:
            return []
        return await self._overview.find_troubles(
            self._tenant, where=None, key=int(text), without_entry=self._without_entry
        )
