"""A session of `verbworker dev`: the database, the reloading worker, and the events of the runbook."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from verbworker.dev import worker_process
from verbworker.dev.console import beside
from verbworker.dev.event_log import EventLog
from verbworker.dev.files import Files, home_of, sql_files
from verbworker.dev.folder import held, write_settings
from verbworker.dev.plan import Plan
from verbworker.dev.postgres import LocalPostgres, read_address
from verbworker.dev.worker_process import WorkerProcess
from verbworker.errors import CannotRun, StoreError, StoreUnavailable
from verbworker.retrying import STORED
from verbworker.stores import migrations
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database, connect
from verbworker.stores.dsn import hide_password

_TICK = 0.3  # seconds; a saved file reloads without a noticeable delay, and looking stays cheap
_SOON = 30.0  # a worker that ends sooner after its start will likely do so again

Tell = Callable[[str], None]


class Restarts:
    """When to replace a worker that ended by itself: at once, and later each time if it ends soon after its start."""

    def __init__(self) -> None:
        self._ended: WorkerProcess | None = None
        self._started_at = float("-inf")
        self._due_at = 0.0
        self._failures = 0

    def note_end(self, worker: WorkerProcess, now: float) -> float | None:
        """Return the seconds until its replacement starts, or None if its end was noted before."""
        if worker is self._ended:
            return None
        self._ended = worker
        self._failures = self._failures + 1 if now - self._started_at < _SOON else 0
        return self._pause(now)

    def note_failure(self, now: float) -> None:
        """Note that a replacement could not start."""
        self._failures += 1
        self._pause(now)

    def note_start(self, now: float) -> None:
        """Note that a replacement runs."""
        self._started_at = now

    def is_due(self, now: float) -> bool:
        """Return whether it is time to start a replacement."""
        return now >= self._due_at

    def _pause(self, now: float) -> float:
        # Not `Retries`: the session looks at files and processes while it waits, so the pause is kept as a time.
        pause = STORED.after(self._failures) if self._failures else 0.0
        self._due_at = now + pause
        return pause


class DevSession:
    """One developer's session; `run` returns the exit code when it ends."""

    def __init__(
        self,
        plan: Plan,
        data: Path,
        *,
        dsn: str | None,
        port: int | None,
        tell: Tell,
        console_port: int | None = None,
    ) -> None:
        self._console_port = console_port
        self._plan = plan
        self._data = data
        self._dsn = dsn
        self._port = port
        self._tell = tell
        self._server: LocalPostgres | None = None

    async def run(self, stop: asyncio.Event) -> int:
        """Run until `stop` is set or the session cannot go on."""
        code = await unless(stop, self._work)
        self._tell("everything that was started has ended")
        return 0 if code is None else code

    async def _work(self) -> int:
        with held(self._data):
            async with self._database() as dsn:
                applied = await migrations.migrate(dsn)
                self._tell(f"the database is {hide_password(dsn)}, {len(applied)} migration(s) applied")
                await apply(dsn, sql_files(self._plan.sql), self._tell)
                files = Files(self._paths_to_watch())
                first = await worker_process.start(self._words, self._plan.settings(dsn))
                if isinstance(first, int):
                    return first
                console = beside(self._plan, dsn, self._catalogue, port=self._console_port, tell=self._tell)
                try:
                    self._explain(first, dsn)
                    async with Database(dsn, size=2) as database, console:
                        return await self._follow(dsn, database, files, first)
                finally:
                    # Again, in case we end before `_follow` takes over; ending a process twice is harmless.
                    await first.end()

    @asynccontextmanager
    async def _database(self) -> AsyncIterator[str]:
        known = read_address(self._data)
        # A DSN that an earlier session left in this shell is not a database of the user's own.
        if self._dsn is not None and (known is None or self._dsn != known.dsn):
            yield self._dsn
            return
        async with LocalPostgres(self._data, port=self._port) as self._server:
            yield self._server.dsn

    @property
    def _catalogue(self) -> Path:
        return self._data / "catalogue.json"

    @property
    def _words(self) -> list[str]:
        return [*self._plan.words, "--catalogue", str(self._catalogue)]

    def _paths_to_watch(self) -> list[Path]:
        contracts = [Path(self._plan.verbs)] if self._plan.verbs else []
        models = [Path(model) for model in self._plan.models]
        return [home_of(self._plan.app), *models, *self._plan.sql, *contracts, Path("pyproject.toml")]

    def _explain(self, worker: WorkerProcess, dsn: str) -> None:
        # A direct verb runs in the command that starts it, and its developer wants to see its errors there.
        place = write_settings(self._data, self._plan.settings(dsn) | {"VERBWORKER_LOG_TRACEBACKS": "1"})
        greeting = worker.greeting
        does = "running" if greeting.verbs else "serving"
        self._tell(f"{does} {greeting.words}; saved changes reload automatically, Ctrl-C ends everything")
        self._tell("in another terminal:")
        self._tell(f"  . {place if place.is_absolute() else Path(os.curdir) / place}")
        if greeting.example:
            self._tell(f"  {greeting.example}")
        # Plain processes have neither gates nor entries.
        for command in (
            ("gates list", "runbook list") if greeting.verbs else ("frames list --state completed", "incidents list")
        ):
            self._tell(f"  verbworker {command}")

    async def _follow(self, dsn: str, database: Database, files: Files, worker: WorkerProcess) -> int:
        log = EventLog(Runbook(database), self._plan.tenant)
        restarts = Restarts()
        try:
            await log.skip()
            while True:
                await asyncio.sleep(_TICK)
                await self._say_news(log)
                if changed := await files.changes():
                    worker, restarts = await self._exchange(dsn, worker, changed), Restarts()
                elif worker.code is not None:
                    worker = await self._replace(dsn, worker, restarts)
        finally:
            await worker.end()

    async def _say_news(self, log: EventLog) -> None:
        try:
            for line in await log.news():
                self._tell(str(line))
        except StoreUnavailable as error:
            if self._server is not None and not self._server.is_alive():
                raise CannotRun(f"Postgres ended unexpectedly; its log is in {self._data}") from error

    def _sql_among(self, changed: Sequence[str]) -> list[Path]:
        return [path for path in sql_files(self._plan.sql) if os.path.relpath(path) in changed]

    async def _replace(self, dsn: str, ended: WorkerProcess, restarts: Restarts) -> WorkerProcess:
        """Return a new worker for one that ended by itself, when it is time for it."""
        clock = asyncio.get_running_loop().time
        if (pause := restarts.note_end(ended, clock())) is not None:
            when = f"in {pause:.0f} s" if pause else "now"
            self._tell(f"the worker ended unexpectedly ({ended.code}); another starts {when}")
        if not restarts.is_due(clock()):
            return ended
        new = await worker_process.start(self._words, self._plan.settings(dsn))
        if isinstance(new, int):
            restarts.note_failure(clock())
            return ended
        await ended.end()
        restarts.note_start(clock())
        self._tell(f"the worker runs again: {new.greeting.words}")
        return new

    async def _exchange(self, dsn: str, old: WorkerProcess, changed: Sequence[str]) -> WorkerProcess:
        """Return the worker to use from now on: a new one, or the old one if the new verbs are invalid."""
        self._tell(f"changed: {', '.join(changed)}")
        try:
            await apply(dsn, self._sql_among(changed), self._tell)
            new = await worker_process.start(self._words, self._plan.settings(dsn))
        except CannotRun as error:
            self._tell(str(error))
            new = 2
        if isinstance(new, int):
            self._tell("invalid; the previous version keeps running until it is fixed")
            return old
        await old.end()
        self._tell(f"reloaded: {new.greeting.words}")
        return new


async def apply(dsn: str, files: Sequence[Path], tell: Tell) -> None:
    """Run the application's own SQL, each file as a whole; `CannotRun` names the refused file and the reason."""
    for path in files:
        try:
            text = await asyncio.to_thread(path.read_text, encoding="utf-8")
            async with connect(dsn) as connection:
                await connection.execute(text)
        except OSError as error:
            raise CannotRun(f"--sql {path}: {error.strerror}") from error
        except StoreError as error:
            raise CannotRun(f"--sql {path}: {error}") from error
        tell(f"{path}: applied")


async def unless(stop: asyncio.Event, work: Callable[[], Awaitable[int]]) -> int | None:
    """Return the result of `work`, or None if `stop` was set first; `work` has cleaned up either way.

    Errors of `work` arrive in a group, which `run` takes apart.
    """
    answer: int | None = None

    async def working() -> None:
        nonlocal answer
        answer = await work()
        stop.set()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(working())
        await stop.wait()
        task.cancel()
    return answer
