"""Checks of the database: connection, version, schema, permissions and clock."""

import time
from collections.abc import Sequence
from datetime import timedelta

from verbworker.doctor.check_result import CheckResult, ok, warn, wrong
from verbworker.doctor.subject import Subject
from verbworker.stores import durability as _server
from verbworker.stores import migrations as _schema
from verbworker.stores.checkup import Checkup
from verbworker.stores.dsn import hide_password

_OLDEST, _NEWEST = 15, 18  # major versions: older ones lack what the migrations use, newer ones are not tested
_LOOKS = 3  # the fastest round trip counts: the first also opens the connection
_SOME_SECONDS = timedelta(seconds=2)  # clocks kept by NTP differ by less; leases bear more
_MAKE_WORKER = 'as an administrator: verbworker db roles, then GRANT verbworker_worker TO "{role}"'
_MOST_NAMED = 5  # enough to recognize what is missing; one grant covers all


async def reach(subject: Subject) -> Sequence[CheckResult]:
    """Check that the database answers, and report our role."""
    server = await Checkup(await subject.database()).server()
    # Never the address as given: it may hold a password.
    address = hide_password(subject.settings.database()) or "the database"
    return [ok("database", f"{address} answers; our role is {server.role}")]


async def version(subject: Subject) -> Sequence[CheckResult]:
    """Check that this is a tested Postgres version."""
    server = await Checkup(await subject.database()).server()
    major, name = server.number // 10_000, "postgres version"
    if major < _OLDEST:
        return [wrong(name, f"Postgres {server.version} is too old", f"upgrade it to {_OLDEST} or newer")]
    if major > _NEWEST:
        fix = f"use Postgres {_OLDEST} to {_NEWEST}, or a newer verbworker"
        return [warn(name, f"Postgres {server.version} is newer than the tested versions", fix)]
    return [ok(name, f"Postgres {server.version}")]


async def durability(subject: Subject) -> Sequence[CheckResult]:
    """Check that a confirmed commit survives a server crash; otherwise a worker refuses to start."""
    await _server.require_durable(await subject.database())
    return [ok("durability", "the server is a primary and writes commits to disk")]


async def migrations(subject: Subject) -> Sequence[CheckResult]:
    """Check that the schema is exactly the one this version needs."""
    states = await _schema.status(subject.settings.database())
    by_state: dict[str, list[str]] = {}
    for migration in states:
        by_state.setdefault(migration.state, []).append(migration.name)
    if changed := by_state.get("changed"):
        fix = "restore the file and put the change into a new migration"
        return [wrong("migrations", f"{_list_names(changed)} changed after it was applied", fix)]
    if strange := by_state.get("unknown"):
        fix = "install the version of verbworker that wrote it, or a newer one"
        return [wrong("migrations", f"the database has {_list_names(strange)}, which this version does not know", fix)]
    if pending := by_state.get("pending"):
        return [wrong("migrations", f"{len(pending)} missing: {_list_names(pending)}", "run: verbworker db migrate")]
    return [ok("migrations", f"all {len(states)} are applied as shipped")]


async def own_role(subject: Subject) -> Sequence[CheckResult]:
    """Check that our role is no owner of the tables: no right and no policy holds for one."""
    checkup = Checkup(await subject.database())
    role, own = (await checkup.server()).role, await checkup.own_role()
    is_more = (own.is_superuser, "a superuser"), (own.is_owner, "the owner of the tables"), (
        own.passes_policies, "exempt from row level security")  # fmt: skip
    more = next((words for holds, words in is_more if holds), None)
    if more is None and own.roles:
        return [ok("role", f"{role} is a member of {', '.join(own.roles)}")]
    if more is None:
        found = f"{role} is a member of none of our roles, so what it may do was granted by hand"
        return [warn("role", found, _MAKE_WORKER.format(role=role))]
    found = f"{role} is {more}: it may rewrite the record, and see all tenants"
    if subject.settings.owner_login == "allow":
        return [ok("role", f"{found}; VERBWORKER_OWNER_LOGIN allows it")]
    fix = 'as an administrator: verbworker db roles, then GRANT verbworker_worker TO "<another login, for workers>"'
    return [wrong("role", found, fix)]


async def permissions(subject: Subject) -> Sequence[CheckResult]:
    """Check that our role may do to each table what a worker does."""
    checkup = Checkup(await subject.database())
    role = (await checkup.server()).role
    is_embedded = subject.settings.engine == "embedded"
    missing = await checkup.missing("verbworker", *(("verbworker_engine",) if is_embedded else ()))
    fix = _MAKE_WORKER.format(role=role)
    if missing:
        return [wrong("permissions", f"{role} lacks {len(missing)}: {_list_names(missing)}", fix)]
    if unusable := await checkup.missing_functions("verbworker"):
        return [warn("permissions", f"{role} cannot delete old rows, so tables grow: {_list_names(unusable)}", fix)]
    return [ok("permissions", f"{role} has all permissions of a worker")]


async def clock(subject: Subject) -> Sequence[CheckResult]:
    """Compare this machine's clock with the database's, which leases use."""
    checkup = Checkup(await subject.database())
    looks = [await _look(checkup) for _ in range(_LOOKS)]
    ahead, doubt = min(looks, key=lambda look: look[1])
    return [judge_clock("clock", "the database's", ahead, doubt, subject.settings.lease)]


async def _look(checkup: Checkup) -> tuple[timedelta, timedelta]:
    """Return how far the other clock is ahead, and the uncertainty: half of the round trip."""
    before = time.time()
    there = (await checkup.clock()).timestamp()
    after = time.time()
    return timedelta(seconds=there - (before + after) / 2), timedelta(seconds=(after - before) / 2)


def judge_clock(name: str, whose: str, ahead: timedelta, doubt: timedelta, lease: timedelta) -> CheckResult:
    """Judge a clock difference: deadlines are off by it, and beyond a lease nothing is reliable."""
    apart = max(abs(ahead) - doubt, timedelta(0))
    way = "ahead of" if ahead > timedelta(0) else "behind"
    found = f"{whose} clock is {abs(ahead).total_seconds():.2f} s {way} this machine's"
    fix = "synchronize both clocks with NTP"
    if apart >= lease:
        return wrong(name, found, fix)
    return warn(name, found, fix) if apart >= _SOME_SECONDS else ok(name, found)


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
