"""The tenant that a connection serves: policies of the database hide the rows of all others from it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SETTING = "verbworker.tenant"
"""The setting that the policies of `sql/roles.sql` read."""

EVERY_TENANT = "*"
"""What a session says that serves all tenants: it counts for the worker's role alone. Others see nothing by it."""

_request: ContextVar[str | None] = ContextVar("verbworker_tenant", default=None)


def serve_tenant(tenant: str) -> None:
    """Let all connections that this task uses from now on serve one tenant, whatever their pool serves."""
    _request.set(tenant)


@contextmanager
def tenant_scope(tenant: str) -> Iterator[None]:
    """Let the connections that this task uses inside the block serve one tenant, or every one."""
    token = _request.set(tenant)
    try:
        yield
    finally:
        _request.reset(token)


def served_tenant(pool: str) -> str:
    """Return the tenant that a connection of this task must serve: the task's, or that of its pool."""
    return _request.get() or pool


def local_setting(tenant: str) -> str:
    """Return the statement that has the rest of a transaction serve one tenant, to be sent with its BEGIN."""
    quoted = tenant.replace("\\", "\\\\").replace("'", "''")
    return f"SET LOCAL {SETTING} = E'{quoted}'"
