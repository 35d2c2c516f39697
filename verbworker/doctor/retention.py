"""Check of retention: tables that grow without limit, and rows that should be deleted."""

from collections.abc import Sequence
from datetime import timedelta

from verbworker.app.export_directory import ExportDirectory
from verbworker.app.services import retention
from verbworker.doctor.check_result import CheckResult, ok, warn
from verbworker.doctor.subject import Subject
from verbworker.stores.checkup import Checkup
from verbworker.work.upkeep.retention import COUNTED, ENTRIES, RuleState

_NAME = "retention"
# A worker checks every few minutes, so rows due for a day are deleted by no worker.
_LATE = timedelta(days=1)
# Below this, a table that is never emptied does not matter.
_MANY = 1_000_000


async def look(subject: Subject) -> Sequence[CheckResult]:
    """Report rows that are due, overdue, or kept forever."""
    settings, database = subject.settings, await subject.database()
    states = await retention(settings, database).read_states(most=COUNTED)
    now = await Checkup(database).clock()
    found = [
        *_behind([one for one in states if one.behind(now) > _LATE], settings.export_dir is not None),
        *_check_growth(
            [one for one in states if one.kept is None and one.rule.setting not in settings.model_fields_set]
        ),
    ]
    if settings.export_dir is not None:
        ExportDirectory(settings.export_dir).check()
    return found or [ok(_NAME, _summary(states))]


def _behind(late: Sequence[RuleState], has_export: bool) -> Sequence[CheckResult]:
    found = []
    for one in late:
        many = "or more " if one.due.rows >= COUNTED else ""
        words = f"{one.due.rows} {many}of {one.rule.kind} are overdue by more than a day"
        if one.rule is ENTRIES and not has_export:
            found.append(warn(_NAME, f"{words}, but no export directory is set", "set VERBWORKER_EXPORT_DIR"))
        else:
            found.append(warn(_NAME, words, "check that a worker runs; for the reason: verbworker db retention"))
    return found


def _check_growth(kept: Sequence[RuleState]) -> Sequence[CheckResult]:
    large = [one for one in kept if one.size.rows >= _MANY]
    return [
        warn(
            _NAME,
            f"{one.rule.tables[0]} has about {one.size.rows:,} rows and is kept forever",
            f"set VERBWORKER_{one.rule.setting.upper()}, to forever if that is intended",
        )
        for one in large
    ]


def _summary(states: Sequence[RuleState]) -> str:
    due = sum(one.due.rows for one in states)
    kept = [f"{one.rule.kind} (about {one.size.rows:,} rows)" for one in states if one.kept is None]
    return f"{due} row(s) are due; kept forever: {', '.join(kept) or 'nothing'}"
