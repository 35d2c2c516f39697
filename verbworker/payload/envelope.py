"""The domain payload: the one envelope a process carries, canonical to the byte and opaque to the engine."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from verblint.contracts.contract import DEFAULT_BUDGET, MAX_BUDGET
from verblint.contracts.syntax import PAYLOAD_SCHEMA
from verbworker.errors import PayloadIntegrityError, PermanentContract
from verbworker.payload.canonical import MAX_DEPTH, canonical, encode, parse, too_large
from verbworker.payload.signature import digest

HARD_LIMIT = MAX_BUDGET
TRAIL_LENGTH = 20  # the last steps; the runbook has them all

SCHEMA = re.compile(PAYLOAD_SCHEMA)
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)
_TEXT = re.compile(r"[^\x00-\x1f]{1,200}")
_LONGEST_KEPT = 200  # characters of a field whose check is remembered
_FIELDS = frozenset({"created_at", "data", "last_modified_by", "schema", "schema_hash", "sub_verb_trail"})
_STEP_FIELDS = frozenset({"at", "outcome", "verb"})
# Raw quotes cannot occur inside a JSON string, so these find the envelope's own fields and nothing in `data`.
_BEFORE_DATA = b',"data":'
_AFTER_DATA = b',"last_modified_by":'


@dataclass(frozen=True, slots=True)
class PayloadStep:
    """One entry of the trail: which verb ran, when, and its outcome."""

    verb: str
    at: str
    outcome: str


@dataclass(frozen=True, slots=True)
class DomainPayload:
    """The envelope around a workflow's data. Never modify `data`; create the next payload instead."""

    schema: str
    created_at: str
    last_modified_by: str
    data: Mapping[str, Any]
    content: bytes = field(repr=False)  # the canonical bytes of `data`
    sub_verb_trail: tuple[PayloadStep, ...] = ()
    trail_ref: str | None = None
    known_hash: str | None = field(default=None, repr=False, compare=False)  # of the content, if it was computed

    @property
    def schema_hash(self) -> str:
        """Return the hash of the canonical data. The name comes from the seed; it is not a hash of the schema."""
        return self.known_hash or digest(self.content)

    def with_step(self, data: Mapping[str, Any], *, verb: str, at: datetime, outcome: str) -> "DomainPayload":
        """Return the payload after `verb` produced `data`; the trail keeps only the newest steps."""
        step = PayloadStep(_check_field(verb, _TEXT, "verb"), instant(at), _check_field(outcome, _TEXT, "outcome"))
        return DomainPayload(
            schema=self.schema,
            created_at=self.created_at,
            last_modified_by=verb,
            data=data,
            content=self.content if data is self.data else _data_bytes(data),
            sub_verb_trail=(*self.sub_verb_trail, step)[-TRAIL_LENGTH:],
            trail_ref=self.trail_ref,
            known_hash=self.known_hash if data is self.data else None,
        )

    def under(self, schema: str, data: Mapping[str, Any]) -> "DomainPayload":
        """Return the payload with its data upgraded to another schema; this adds no step to the trail."""
        schema = _check_field(schema, SCHEMA, "schema")
        return replace(self, schema=schema, data=data, content=_data_bytes(data), known_hash=None)

    def to_bytes(self, *, budget: int = DEFAULT_BUDGET) -> bytes:
        """Return the canonical bytes for `domain_payload`; exceeding `budget` is a contract failure."""
        after: dict[str, object] = {
            "last_modified_by": self.last_modified_by,
            "schema": self.schema,
            "schema_hash": self.schema_hash,
            "sub_verb_trail": [{"at": s.at, "outcome": s.outcome, "verb": s.verb} for s in self.sub_verb_trail],
        }
        if self.trail_ref is not None:
            after["trail_ref"] = self.trail_ref
        # `data` is already canonical; the other fields are placed around it in key order.
        before = b'{"created_at":"%b"' % self.created_at.encode()
        whole = b"".join((before, _BEFORE_DATA, self.content, b",", canonical(after)[1:]))
        limit = min(budget, HARD_LIMIT)
        if len(whole) > limit:
            raise too_large(len(whole), limit)
        return whole


def pack(schema: str, data: Mapping[str, Any], *, by: str, at: datetime, trail_ref: str | None = None) -> DomainPayload:
    """Return the first payload of an instance, made by `by` (a verb or a caller) at `at`."""
    return DomainPayload(
        schema=_check_field(schema, SCHEMA, "schema"),
        created_at=instant(at),
        last_modified_by=_check_field(by, _TEXT, "last_modified_by"),
        data=data,
        content=_data_bytes(data),
        trail_ref=None if trail_ref is None else _check_field(trail_ref, _TEXT, "trail_ref"),
    )


def unpack(content: bytes, *, budget: int = DEFAULT_BUDGET) -> DomainPayload:
    """Parse an envelope whose seal was checked; all fields must be present and valid, and no others."""
    envelope = parse(content, limit=min(budget, HARD_LIMIT), exact=True)
    if not isinstance(envelope, dict):
        raise _invalid("the payload is not an envelope but some other JSON value")
    if unknown := envelope.keys() - _FIELDS - {"trail_ref"}:
        raise _invalid(f"the envelope has the unknown field {min(unknown)[:60]!a}")
    if missing := _FIELDS - envelope.keys():
        raise _invalid(f"the envelope lacks the field {min(missing)!r}")
    if not isinstance(envelope["data"], dict):
        raise _invalid("the envelope's field 'data' is not an object")
    own = content[content.index(_BEFORE_DATA) + len(_BEFORE_DATA) : content.rindex(_AFTER_DATA)]
    payload = DomainPayload(
        schema=_check_field(envelope["schema"], SCHEMA, "schema"),
        created_at=_checked_instant(envelope["created_at"], "created_at"),
        last_modified_by=_check_field(envelope["last_modified_by"], _TEXT, "last_modified_by"),
        data=envelope["data"],
        sub_verb_trail=_checked_trail(envelope["sub_verb_trail"]),
        trail_ref=_check_field(envelope["trail_ref"], _TEXT, "trail_ref") if "trail_ref" in envelope else None,
        content=own,
        known_hash=digest(own),
    )
    if payload.schema_hash != _check_field(envelope["schema_hash"], _HASH, "schema_hash"):
        raise PayloadIntegrityError("the data does not match the envelope's schema_hash", code="DataHashMismatch")
    return payload


def payload_bytes(variable: object) -> bytes:
    """Return the bytes of `domain_payload` as the engine delivered it; anything but text was coerced on the way."""
    if not isinstance(variable, str):
        kind = "missing" if variable is None else "no longer text"
        raise PayloadIntegrityError(f"the variable domain_payload is {kind}", code="PayloadNotText")
    try:
        return variable.encode()
    except UnicodeEncodeError as error:
        raise PermanentContract("a text holds half of a surrogate pair", code="LoneSurrogate") from error


def instant(at: datetime) -> str:
    """Format a moment: UTC, ISO 8601, ending in Z."""
    if at.tzinfo is None:
        raise ValueError("a timestamp needs a time zone")
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _data_bytes(data: object) -> bytes:
    if not isinstance(data, dict):
        raise PermanentContract("the data of a payload must be an object", code="DataNotObject")
    return encode(data, depth=MAX_DEPTH - 1)  # the envelope adds one level


def _check_field(value: object, grammar: re.Pattern[str], name: str) -> str:
    if not isinstance(value, str) or not (_fits if len(value) <= _LONGEST_KEPT else _match)(grammar, value):
        raise _invalid(f"the envelope's field {name!r} is malformed")
    return value


def _match(grammar: re.Pattern[str], text: str) -> bool:
    return grammar.fullmatch(text) is not None


# The same names and moments come with every job of a case.
_fits = lru_cache(maxsize=4096)(_match)


def _checked_instant(value: object, name: str) -> str:
    text = _check_field(value, _INSTANT, name)
    if not _is_moment(text):
        raise _invalid(f"the envelope's field {name!r} is no moment in time")
    return text


@lru_cache(maxsize=4096)
def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _checked_trail(value: object) -> tuple[PayloadStep, ...]:
    if not isinstance(value, list) or len(value) > TRAIL_LENGTH:
        raise _invalid(f"the envelope's field 'sub_verb_trail' is not a list of at most {TRAIL_LENGTH} steps")
    return tuple(map(_checked_step, value))


def _checked_step(value: object) -> PayloadStep:
    if not isinstance(value, dict) or value.keys() != _STEP_FIELDS:
        raise _invalid("a step of 'sub_verb_trail' must have exactly 'verb', 'at' and 'outcome'")
    verb, at, outcome = value["verb"], value["at"], value["outcome"]
    if type(verb) is type(at) is type(outcome) is str and len(verb) + len(at) + len(outcome) <= _LONGEST_KEPT:
        return _kept_step(verb, at, outcome)
    return _step(verb, at, outcome)


def _step(verb: object, at: object, outcome: object) -> PayloadStep:
    return PayloadStep(
        verb=_check_field(verb, _TEXT, "sub_verb_trail.verb"),
        at=_checked_instant(at, "sub_verb_trail.at"),
        outcome=_check_field(outcome, _TEXT, "sub_verb_trail.outcome"),
    )


_kept_step = lru_cache(maxsize=4096)(_step)  # a step comes with every later job of its case


def _invalid(message: str) -> PermanentContract:
    return PermanentContract(message, code="EnvelopeInvalid")
