"""Schema migrations: each is applied once, in order; a file changed after it was applied is rejected."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from verbworker.errors import SchemaMismatch, StoreError, StoreUnavailable
from verbworker.stores import sql
from verbworker.stores.access import roles
from verbworker.stores.database import Connection, connect, translate_errors

_LOCK = 0x76657262  # "verb": one migrator at a time per database
_TURN_WAIT = timedelta(seconds=60)  # for another migrator, such as a second pod of a deployment
_NOT_SUPPORTED = "0A000"


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration and its state in the database: applied, pending, changed or unknown."""

    name: str
    state: str
    applied_at: datetime | None


async def migrate(dsn: str) -> list[str]:
    """Apply pending migrations and return their names. Any number of migrators may run concurrently.

    A login that does not own the tables changes nothing: it raises `StoreError` if migrations are missing.
    """
    async with connect(dsn) as connection:
        await _take_turn(connection)
        if login := await connection.fetchval(sql.query("migrations", "stranger")):
            _refuse_stranger(login, await _states(connection))
            return []
        await connection.execute(sql.query("migrations", "bootstrap_schema"))
        await connection.execute(sql.query("migrations", "bootstrap_table"))
        _refuse_surprises(await _states(connection))
        done = await _apply_pending(connection)
        # Also without a migration: the file of an older version may have been applied meanwhile.
        await roles.reapply_in(connection)
        return done


async def _take_turn(connection: Connection) -> None:
    await connection.execute(sql.query("migrations", "be_patient"), f"{_TURN_WAIT / timedelta(milliseconds=1):.0f}ms")
    try:
        with translate_errors():
            # Closing the connection releases the lock.
            await connection.execute(sql.query("migrations", "take_turn"), _LOCK)
    except StoreUnavailable:
        raise
    except StoreError as error:
        raise StoreError(
            f"another migration is still running after {_TURN_WAIT.total_seconds():g} s; try again"
        ) from error


async def status(dsn: str) -> list[Migration]:
    """Return the state of every migration. Changes nothing."""
    async with connect(dsn) as connection:
        return await _states(connection)


async def require(dsn: str) -> None:
    """Raise `SchemaMismatch` unless the database is exactly at this version's schema."""
    states = await status(dsn)
    _refuse_surprises(states)
    if missing := _missing(states):
        raise SchemaMismatch(f"{missing}; run: verbworker db migrate")


async def _states(connection: Connection) -> list[Migration]:
    shipped = dict(sql.migrations())
    applied: dict[str, tuple[bytes, datetime]] = {}
    if await connection.fetchval(sql.query("migrations", "is_bootstrapped")):
        rows = await connection.fetch(sql.query("migrations", "applied"))
        applied = {row["name"]: (row["checksum"], row["applied_at"]) for row in rows}
    states = []
    for name in sorted(shipped | applied):
        checksum, at = applied.get(name, (None, None))
        if name not in shipped:
            state = "unknown"
        elif checksum is None:
            state = "pending"
        else:
            state = "applied" if checksum == _checksum(shipped[name]) else "changed"
        states.append(Migration(name, state, at))
    return states


def _refuse_surprises(states: list[Migration]) -> None:
    for migration in states:
        if migration.state == "changed":
            raise SchemaMismatch(
                f"migration {migration.name} was changed after it was applied; "
                "restore the file and put the change into a new migration"
            )
        if migration.state == "unknown":
            raise SchemaMismatch(
                f"the database has migration {migration.name}, which this version does not know; "
                "install the version of verbworker that wrote it, or a newer one"
            )


def _missing(states: list[Migration]) -> str:
    """Say how many migrations are pending, if any."""
    pending = [migration.name for migration in states if migration.state == "pending"]
    return f"the database misses {len(pending)} migration(s), first {pending[0]}" if pending else ""


def _refuse_stranger(login: str, states: list[Migration]) -> None:
    _refuse_surprises(states)
    if missing := _missing(states):
        raise StoreError(
            f"{missing}, and {login} does not own it; run verbworker db migrate as the owner of its tables"
        )


async def _apply_pending(connection: Connection) -> list[str]:
    texts = dict(sql.migrations())
    done = []
    for migration in await _states(connection):
        if migration.state == "pending":
            await _apply(connection, migration.name, texts[migration.name])
            done.append(migration.name)
    return done


async def _apply(connection: Connection, name: str, text: str) -> None:
    await connection.execute(sql.query("migrations", "stage"), name, text, _checksum(text).hex())
    try:
        with translate_errors():
            await connection.execute(sql.query("migrations", "apply"))
    except StoreUnavailable as error:
        raise StoreUnavailable(f"the database went away during migration {name} ({error}); run it again") from error
    except StoreError as error:
        hint = ""
        if getattr(error.__cause__, "sqlstate", "") == _NOT_SUPPORTED:
            hint = "; a migration is one transaction and may not begin or end one"
        raise StoreError(f"migration {name} failed and left nothing behind: {error}{hint}") from error


def _checksum(text: str) -> bytes:
    return sha256(text.encode()).digest()
