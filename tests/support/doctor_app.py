"""The doctor's waiting room: a small application on the embedded engine, and what the doctor says of it."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from tests.support.apart import run_apart
from tests.support.command import Said, verbworker
from tests.support.databases import execute
from tests.support.models import one_task
from tests.support.shop import Shop

EMBEDDED = {"VERBWORKER_ENGINE": "embedded"}
SEALING = {"VERBWORKER_SEAL_KEYS": '{"k1": "a secret that the database does not have"}'}

_GATE = """
INSERT INTO verbworker.parked_token (
  token_id, tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason,
  gate, job_key, opened_at
) VALUES (
  $1, 'default', gen_random_uuid(), gen_random_uuid(), 'embedded', 1, $2, 'review', 'human_gate', 'a reviewer',
  $3, 3, clock_timestamp() - $4 * interval '1 hour'
)
"""
_HELD = """
INSERT INTO verbworker.job_frame (
  engine_id, job_key, process_instance_key, element_instance_key, verb, tenant_id, process_id, process_version,
  element_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key, owner, lease_until, activated_ms,
  retries_left, input_hash, state, fail_class, fail_code, fail_text, reported_at
) VALUES (
  'embedded', $1, 1, 2, 'shop.charge', 'default', 'shop', 1, 'task', 'external', 'rerun', 5, '1 day', 'k',
  gen_random_uuid(), clock_timestamp(), 0, 0, '', 'incident', 'PermanentContract', 'NoCustomer', 'x', clock_timestamp()
)
"""
_LETTER = """
INSERT INTO verbworker.dead_letter (letter_id, tenant_id, code, reason, body, sent_by)
VALUES ($1, 'default', 'invalid', 'no JSON', 'x', 'portal')
"""
_STALL = """
INSERT INTO verbworker.stall (entry_id, kind, place, tenant_id, engine_id, since, seq, reason, remedy)
VALUES ($1, $2, '', 'default', 'embedded', clock_timestamp() - $3 * interval '1 minute', 1, 'nothing came after it',
  'restart the broker')
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the doctor, as a pipe gets it."""

    verdict: str
    found: str
    fix: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything the doctor said, by what was looked at."""

    said: Said
    lines: dict[str, Line]

    def of(self, *verdicts: str) -> list[str]:
        """What has one of these verdicts."""
        return [name for name, line in self.lines.items() if line.verdict in verdicts]


@dataclass(frozen=True, slots=True)
class Clinic:
    """A shop and its database."""

    shop: Shop
    dsn: str

    def run(self, *words: str, **settings: str) -> Said:
        """Any command, in the shop's folder."""
        return verbworker(*words, directory=self.shop.folder, dsn=self.dsn, **{**EMBEDDED, **SEALING, **settings})

    def doctor(self, *words: str, **settings: str) -> Report:
        """The doctor's lines; everything but the address of the database is the caller's."""
        return report(self.run("doctor", *words, **settings))

    def full(self, **settings: str) -> Report:
        """The doctor with everything there is to look at."""
        return self.doctor("processes", "--app", "shop:registry", **settings)

    def write_model(self, model: bytes | None = None) -> None:
        """Put the model where it belongs."""
        file = self.shop.folder / "processes" / "order" / "process.bpmn"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(model or one_task(self.shop.process, self.shop.verb))
        (self.shop.folder / "pyproject.toml").write_text('[tool.verblint]\nverbs = "contracts"\n')

    def deploy(self, **settings: str) -> None:
        """Deploy it."""
        self.write_model()
        said = self.run("deploy", "processes", "--app", "shop:registry", **settings)
        assert said.code == 0, said.out + said.err

    def start_case(self) -> None:
        """Ask for a case."""
        said = self.run("start", '(shop.order :item "a ring")', "--app", "shop:registry")
        assert said.code == 0, said.out + said.err

    def put_gate(self, gate: str = "review", *, hours: int = 0) -> UUID:
        """A gate that has been open for some hours, and its token."""
        token = uuid4()
        run_apart(execute(self.dsn, _GATE, token, token.int % 10**9, gate, hours))
        return token

    def put_held(self, job_key: int) -> None:
        """A job that is held for a person."""
        run_apart(execute(self.dsn, _HELD, job_key))

    def put_stall(self, kind: str, *, minutes: int, entry_id: UUID | None = None) -> UUID:
        """An entry that was named as standing still for some minutes."""
        entry = entry_id or uuid4()
        run_apart(execute(self.dsn, _STALL, entry, kind, minutes))
        return entry

    def put_letter(self) -> UUID:
        """A message that could not be read."""
        letter = uuid4()
        run_apart(execute(self.dsn, _LETTER, letter))
        return letter

    def json(self, *words: str, **settings: str) -> Any:
        """What a program gets."""
        told = json.loads(self.run(*words, "--json", **settings).out)
        return told

    def entries(self, *options: str) -> list[dict[str, Any]]:
        """The entries of the runbook that a program gets."""
        told: list[dict[str, Any]] = json.loads(self.run("runbook", "list", *options, "--json").out)["entries"]
        return told


def report(said: Said) -> Report:
    """The lines of the doctor; each has what was looked at, a verdict, what was found and what to do."""
    assert "Traceback" not in said.out + said.err, said.err
    assert said.err == "", said.err
    header, *rows = [line.split("\t") for line in said.out.splitlines()]
    assert header == ["check", "verdict", "found", "fix"]
    assert all(len(row) == 4 for row in rows), said.out
    return Report(said, {row[0]: Line(*row[1:]) for row in rows})


def grants(role: str) -> str:
    """The statement that lets a role do what a worker does, and no more."""
    return f"GRANT verbworker_worker TO {role}"
