"""The roles of the database: `sql/roles.sql` grants what each may do and to see, and is applied here."""

from dataclasses import dataclass

from verbworker.errors import StoreError
from verbworker.stores import sql
from verbworker.stores.database import Connection, connect, translate_errors

_DENIED = "42501"


@dataclass(frozen=True, slots=True)
class RoleState:
    """One of the roles, whether the server has it, and which logins are its members."""

    role: str
    exists: bool
    members: tuple[str, ...]


def statements() -> str:
    """Return what `apply` runs, for an administrator with psql."""
    return sql.roles()


async def apply(dsn: str) -> None:
    """Create the roles that are missing, and grant what the version of this code needs. May be repeated."""
    async with connect(dsn) as connection:
        try:
            with translate_errors():
                await connection.execute(sql.roles())
        except StoreError as error:
            if getattr(error.__cause__, "sqlstate", "") != _DENIED:
                raise
            raise StoreError(
                f"{error}; run it as the owner of the tables, and as a role that may create roles if one is missing"
            ) from error


async def reapply_in(connection: Connection) -> bool:
    """Grant anew after a migration, in a database that was given the roles before; return whether it was."""
    if not await connection.fetchval(sql.query("roles", "were_applied")):
        return False
    await connection.execute(sql.roles())
    return True


async def states(dsn: str) -> list[RoleState]:
    """Return every role with its members. Changes nothing."""
    async with connect(dsn) as connection:
        rows = await connection.fetch(sql.query("roles", "states"))
    return [RoleState(row["role"], row["exists"], tuple(row["members"])) for row in rows]
