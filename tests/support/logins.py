"""Logins of a test server: what the product is given, and the owner, whose rows a test puts there by hand."""

import os
from urllib.parse import urlsplit, urlunsplit

ROLES = ("worker", "console", "ingress", "reader")
_PASSWORD = "a-login-of-the-tests"
# Who owns what on the servers of this run, by address.
_OWNERS: dict[str, str] = {}

CREATE = """
DO $$
DECLARE
  role text;
BEGIN
  FOREACH role IN ARRAY ARRAY['worker', 'console', 'ingress', 'reader'] LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'vw_test_' || role) THEN
      EXECUTE format(
        'CREATE ROLE %I LOGIN PASSWORD %L IN ROLE %I', 'vw_test_' || role, 'a-login-of-the-tests',
        'verbworker_' || role);
    END IF;
  END LOOP;
END
$$;
-- The applications of the tests have tables of their own.
GRANT CREATE ON SCHEMA public TO vw_test_worker, vw_test_console, vw_test_ingress;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO vw_test_worker, vw_test_console, vw_test_ingress;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON SEQUENCES TO vw_test_worker, vw_test_console, vw_test_ingress;
"""
"""Logins that are members of the roles, as an administrator makes them."""


def note_owner(dsn: str) -> None:
    """Remember who owns the databases of a server."""
    parts = urlsplit(dsn)
    _OWNERS[_place(dsn)] = parts.netloc


def as_role(dsn: str, role: str) -> str:
    """The same database as a login that is a member of one role; an address that is no login of ours stays as it is."""
    return login(dsn, role) if (urlsplit(dsn).username or "").startswith("vw_test_") else dsn


def login(dsn: str, role: str) -> str:
    """The address of a login that is a member of a role."""
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(netloc=f"vw_test_{role}:{_PASSWORD}@{_place(dsn)}"))


def as_owner(dsn: str) -> str:
    """The same database as its owner; an address that is no login of ours is left as it is."""
    parts = urlsplit(dsn)
    if not (parts.username or "").startswith("vw_test_") or parts.password != _PASSWORD:
        return dsn
    # A proxy before a server has an address of its own; the owner then is that of the server started last.
    return urlunsplit(parts._replace(netloc=_OWNERS.get(_place(dsn)) or list(_OWNERS.values())[-1]))


def default_role() -> str:
    """The role that the product is given in this run, or `owner`, by VERBWORKER_TEST_ROLE."""
    return os.environ.get("VERBWORKER_TEST_ROLE", "worker")


def _place(dsn: str) -> str:
    parts = urlsplit(dsn)
    return f"{parts.hostname}:{parts.port or 5432}"
