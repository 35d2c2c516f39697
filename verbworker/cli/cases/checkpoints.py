"""What `runbook verify` and `runbook seal` read, write and print: checkpoints, exported files, and the report."""

import os
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

from verbworker.app.export_directory import exported_lines
from verbworker.app.output import complain, moment, say
from verbworker.client.record_reports import RecordReport
from verbworker.errors import CannotRun
from verbworker.runbook.checkpoint import Checkpoint, parse_checkpoint
from verbworker.runbook.export import CheckedEntry, check_entry
from verbworker.runbook.record_check import RecordCheck, RecordFinding, note_chain, note_field
from verbworker.stores.cases.payload_checks import PayloadReport
from verbworker.stores.id_prefixes import id_digits

_NAMED = 3  # entries in one line


def read_checkpoint(file: Path) -> str:
    """Return the text of a checkpoint; raise `CannotRun` if there is none."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CannotRun(f"cannot read {file}: {reason}") from error


def write_checkpoint(file: Path, text: str) -> Checkpoint:
    """Write a checkpoint, complete or not at all."""
    # A new file of its own: in a folder of several users, a known name could be another's link to somewhere else.
    part = file.with_name(f".{file.name}.{uuid4().hex[:12]}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise CannotRun(f"cannot write {file}: {error.strerror}") from error
    return parse_checkpoint(text)


def verify_export(place: Path, which: str | None) -> RecordReport:
    """Verify the exported entries of a file or a directory, or those whose id begins so."""
    entries, events, older = 0, 0, 0
    findings: list[RecordFinding] = []
    begins = "" if which is None else id_digits(which)
    for where, line in exported_lines(place):
        try:
            checked = check_entry(line)
            entry_id = UUID(checked.entry_id)
        except ValueError as error:
            raise CannotRun(f"{where}: {error}") from error
        if entry_id.hex.startswith(begins):
            entries, events, older = entries + 1, events + checked.events, older + (not checked.is_covered)
            findings += _findings_of(entry_id, checked)
    return RecordReport.of(RecordCheck(entries, events, tuple(findings), older), PayloadReport(0, 0, ()))


def say_report(report: RecordReport, *, is_export: bool) -> None:
    """Print how much was verified, what is not covered, and each finding."""
    say(f"{report.events} events of {report.entries} entries: {len(report.findings)} findings")
    if not is_export:
        for line in _lines(report):
            say(line)
    if report.not_covered:
        words = "only their events were verified, and what these record"
        say(f"{report.not_covered} entries are not covered (older): {words}")
    for finding in report.findings:
        complain(finding.sentence)


def _lines(report: RecordReport) -> list[str]:
    seals = report.seals
    keys = f"{seals.verified} by a key that is set" if seals.has_keys else "not verified, because no key is set"
    lines = [f"{seals.seals} seals, {seals.signed} signed" + (f": {keys}" if seals.signed else "")]
    if report.checkpoint is not None and not report.findings:
        lines.append(f"everything up to seal {report.checkpoint} of the checkpoint is as it was")
    lines.append(f"{report.payloads} payloads of record")
    if report.unverified_payloads:
        words = "signatures of payloads were not verified: set VERBWORKER_INTEGRITY_KEYS as the workers have it"
        lines.append(f"{report.unverified_payloads} {words}")
    if report.erased:
        lines.append(f"{report.erased} entries were erased: what is left of them is as the erasure left it")
    if seals.dropped:
        lines.append(f"{seals.dropped} entries were dropped by retention")
    if seals.unsealed_number and seals.unsealed_since is not None:
        named = ", ".join(map(str, seals.unsealed[:_NAMED]))
        more = f" and {seals.unsealed_number - _NAMED} more" if seals.unsealed_number > _NAMED else ""
        since = moment(seals.unsealed_since)
        lines.append(f"{seals.unsealed_number} entries are not sealed yet, the first since {since}: {named}{more}")
    return lines


def _findings_of(entry_id: UUID, checked: CheckedEntry) -> list[RecordFinding]:
    found = [] if checked.broken_at is None else [note_chain(entry_id, checked.broken_at)]
    return found + [note_field(entry_id, place, seq or None) for place, seq in checked.changed]
