"""All checks in order, each with a timeout; a check is skipped if one it needs failed."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from verbworker.app.wiring import engine_variables
from verbworker.doctor import application, backlog, database, engine, leases, retention, seal_check, search_check
from verbworker.doctor.check_result import CheckResult, CheckVerdict, unknown, wrong
from verbworker.doctor.subject import Subject
from verbworker.errors import AccessDenied, VerbworkerError

Look = Callable[[Subject], Awaitable[Sequence[CheckResult]]]


@dataclass(frozen=True, slots=True)
class Check:
    """A check, the checks it needs, and what to do if the check itself fails."""

    name: str
    look: Look
    fix: str | Callable[[Subject], str]
    needs: tuple[str, ...] = ()

    def advise(self, subject: Subject) -> str:
        """Return what to do."""
        return self.fix if isinstance(self.fix, str) else self.fix(subject)


_CHECK_SEARCH = "check the gateway's log, and that ZEEBE_REST_ADDRESS answers searches"
_ALLOW = "give this client its permissions, and check CAMUNDA_CLIENT_ID or CAMUNDA_BASIC_AUTH_USERNAME"
_SETTING = re.compile(r"\b(?:VERBWORKER|ZEEBE|CAMUNDA)(?:_[A-Z]+)+\b")
_ADVICE = re.compile(r"(.*): ((?:set|check|write) .*)")


def _check_engine(subject: Subject) -> str:
    """Name the settings that say where the engine is."""
    return " and ".join(("check that the engine runs", *engine_variables(subject.settings)))


CHECKS: tuple[Check, ...] = (
    Check("database", database.reach, "check VERBWORKER_DSN, and that the server runs"),
    Check("postgres version", database.version, "ask the database's operator", ("database",)),
    Check("durability", database.durability, "ask the database's operator", ("database",)),
    Check("migrations", database.migrations, "let this role read verbworker.migration", ("database",)),
    Check("role", database.own_role, "ask the database's operator", ("migrations",)),
    Check("permissions", database.permissions, "run this as the worker's role", ("migrations",)),
    Check("clock", database.clock, "ask the database's operator", ("database",)),
    Check("engine id", engine.name, "set VERBWORKER_ENGINE_ID"),
    Check("engine", engine.reach, _check_engine, ("engine id",)),
    Check("engine version", engine.version, _check_engine, ("engine",)),
    Check("engine APIs", engine.apis, _CHECK_SEARCH, ("engine",)),
    Check("engine search", search_check.see_cases, _CHECK_SEARCH, ("engine", "migrations")),
    Check("streaming", engine.streaming, "set VERBWORKER_STREAMING=false to poll for jobs", ("engine",)),
    Check("engine clock", engine.clock, _check_engine, ("engine", "clock")),
    Check("application", application.load, "run this where the worker runs"),
    Check("keys", application.keys, "set VERBWORKER_INTEGRITY_KEYS"),
    Check("models", application.models, "deploy them: verbworker deploy", ("migrations", "engine id")),
    Check(
        "verbs",
        application.verbs,
        "check the models: verbworker verbs list",
        ("migrations", "engine id", "application"),
    ),
    Check("workers", backlog.check_workers, "check the database's load", ("migrations", "engine id")),
    Check("leases", leases.look, "check the database's load", ("migrations", "engine")),
    *(
        Check(name, partial(backlog.check_queue, name), "check the database's load", ("migrations", "engine id"))
        for name in backlog.QUEUES
    ),
    *(
        Check(name, partial(backlog.check_stalls, name), "check the database's load", ("migrations", "engine id"))
        for name in backlog.STALLS
    ),
    Check("quotas", backlog.check_quotas, "check the database's load", ("migrations",)),
    Check("retention", retention.look, "set VERBWORKER_EXPORT_DIR to a directory it can write to", ("migrations",)),
    Check("seals", seal_check.look, "set VERBWORKER_SEAL_KEYS", ("migrations",)),
)


async def run_checks(subject: Subject, *, timeout: float, tell: Callable[[str], None]) -> list[CheckResult]:
    """Run every check and return the results; `tell` receives progress messages."""
    results: list[CheckResult] = []
    failed: set[str] = set()
    for check in CHECKS:
        tell(f"checking {check.name}")
        found = await _run_check(check, subject, failed, timeout)
        if any(result.verdict is CheckVerdict.WRONG or not result.is_known for result in found):
            failed.add(check.name)
        results += found
    return results


async def _run_check(check: Check, subject: Subject, failed: set[str], timeout: float) -> Sequence[CheckResult]:
    missing = next((name for name in check.needs if name in failed), None)
    if missing is not None:
        return [unknown(check.name, f"{missing} failed", f"fix {missing} first")]
    try:
        async with asyncio.timeout(timeout):
            return await check.look(subject)
    except TimeoutError:
        return [wrong(check.name, f"no answer within {timeout:g} s", check.advise(subject))]
    except AccessDenied as denied:
        return [wrong(check.name, *_split(str(denied), _ALLOW))]
    except VerbworkerError as error:
        return [wrong(check.name, *_split(str(error), check.advise(subject)))]


def _split(sentence: str, fix: str) -> tuple[str, str]:
    """Split the advice after the last semicolon from our errors; others get the settings they name, or `fix`."""
    found, _, advice = " ".join(sentence.split()).rpartition("; ")
    if found:
        return found, advice
    names = tuple(dict.fromkeys(_SETTING.findall(advice)))
    given = _ADVICE.fullmatch(advice)
    if given is not None and any(name in given[2] for name in names):
        return given[1], given[2].rstrip(".")
    return advice, f"check {', '.join(names)}" if names else fix


def worst(results: Sequence[CheckResult]) -> CheckVerdict:
    """Return the worst verdict."""
    return max((result.verdict for result in results), key=list(CheckVerdict).index, default=CheckVerdict.OK)
