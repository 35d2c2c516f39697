"""Everything a run needs, started and stopped together: servers, network, provider, the product's processes."""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.faults import faketime
from tests.faults.app import HERE as APP_FOLDER
from tests.faults.app.provider_client import ADDRESS as PROVIDER_ADDRESS
from tests.faults.app.verbs import NAIVE
from tests.faults.brokers import Brokers
from tests.faults.guards import GUARDS
from tests.faults.service import Service
from tests.faults.web import LOOPBACK, request
from tests.support.children import Child, fresh_directory, remove, spawn
from tests.support.command import COMMAND, environment
from tests.support.ports import free_ports
from tests.support.postgres import Postgres

APP = "tests.faults.app:registry"
ENGINE_ID = "faults"
TENANT = "default"
OFFICERS = {"ann": "vwk_ann-of-the-fault-run", "bob": "vwk_bob-of-the-fault-run"}
LEASE = 5.0
ENGINE_TIMEOUT = 10.0
# Short times, so that every fault is over for the product within seconds.
_SETTINGS = {
    "VERBWORKER_LEASE": str(LEASE),
    "VERBWORKER_ENGINE_TIMEOUT": str(ENGINE_TIMEOUT),
    "VERBWORKER_POLL_WAIT": "2",
    "VERBWORKER_GRACE": "6",
    "VERBWORKER_GATE_TIMEOUT": "10",
    "VERBWORKER_RECONCILE_AFTER": "15",
    "VERBWORKER_STALL_GRACE": "5",
    "VERBWORKER_TENANT": TENANT,
    "VERBWORKER_ENGINE_ID": ENGINE_ID,
}
# A killed broker needs a minute to come back when the machine is busy, and may be killed again meanwhile.
_REDEPLOY_TIMEOUT = 300.0
# A process that began to start while something was away takes so long to notice on a busy machine.
_AFTERWARDS = 20.0
_ROOT = Path(__file__).parents[2]


class Site:
    """One run's servers and processes."""

    def __init__(self, engine: str, *, workers: int, seed: int, guard: str | None = None, naive: bool = False) -> None:
        self.engine = engine
        self.directory = fresh_directory("faults")
        self.postgres = Postgres()
        self.brokers: Brokers | None = None
        if engine != "embedded":
            self.brokers = Brokers(3 if engine == "cluster" else 1, self.directory)
        self._seed = seed
        self._guard = guard
        self._more = dict(GUARDS[guard].settings) if guard is not None else {}
        if naive:
            self._more[NAIVE] = "yes"
        self._ports = iter(free_ports(3 * (workers + 1) + 8))
        self._edge_ports = {name: next(self._ports) for name in ("console", "ingress")}
        self.console_address, self.ingress_address = (f"{LOOPBACK}:{port}" for port in self._edge_ports.values())
        self._helpers: list[Child] = []
        self._count = workers
        self.workers: list[Service] = []
        self.edges: dict[str, Service] = {}
        # What the product needs and is away now, and when something last was.
        self._away = 0
        self._away_at = -_AFTERWARDS

    async def start(self) -> None:
        """Start everything and return when the workers are ready."""
        faketime.forget_dead()
        await asyncio.to_thread(self.postgres.start)
        self._start_network()
        await _listening(self._control_port)
        if self.brokers is not None:
            await self.brokers.start()
        self._start_provider()
        await self._start_commands()
        await self._prepare_database()
        await self.deploy(1)
        self._start_services()
        await asyncio.gather(*(service.ready() for service in self.services))

    @property
    def services(self) -> list[Service]:
        """Every supervised process."""
        return [*self.workers, *self.edges.values()]

    async def command(self, *words: str, killed_after: float | None = None) -> tuple[int, str, str] | None:
        """Run the installed command; None when it was killed before it answered."""
        asked = json.dumps({"words": words, "killed_after": killed_after}).encode() + b"\n"
        reader, writer = await asyncio.open_connection(LOOPBACK, self._command_port, limit=1 << 24)
        try:
            writer.write(asked)
            await writer.drain()
            answer = await reader.readline()
        finally:
            writer.close()
        if not answer.endswith(b"\n"):
            return None
        said = json.loads(answer)
        return said["code"], said["out"], said["err"]

    async def deploy(self, version: int) -> None:
        """Deploy the models, each with its version in its name, so that every version has other bytes."""
        folder = self.directory / f"models-{version}"
        shutil.copytree(APP_FOLDER / "processes", folder, dirs_exist_ok=True)
        for model in folder.glob("*.bpmn"):
            named = re.sub(r'(<bpmn:process id="[^"]+" name="[^"]+)', rf"\1, {version}", model.read_text(), count=1)
            model.write_text(named)
        give_up = time.monotonic() + _REDEPLOY_TIMEOUT
        while True:
            answer = await self.command("deploy", str(folder), "--app", APP, "--verbs", str(APP_FOLDER))
            if answer is not None and answer[0] == 0:
                return
            if version == 1:
                raise RuntimeError(f"the models cannot be deployed: {answer}")
            if time.monotonic() > give_up:
                raise RuntimeError(f"the models could not be deployed again: {answer}")
            await asyncio.sleep(1)

    async def trouble(self, links: Sequence[str], **detail: object) -> None:
        """Have the network make trouble, and return when it is over."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self._control_port)
        writer.write(json.dumps({"links": links, **detail}).encode() + b"\n")
        await reader.readline()
        writer.close()

    async def isolate(self, node: int, seconds: float) -> None:
        """Hold back everything between one broker and the others; its own clients reach it."""
        assert self.brokers is not None
        pids = {str(number): broker.pid for number, broker in enumerate(self.brokers.nodes)}
        between = list(self.brokers.links)
        await self.trouble(between, mode="isolate", node=str(node), pids=pids, seconds=seconds)

    def links(self, target: str) -> list[str]:
        """The network's links that `postgres/all`, `postgres/2` or `gateway/edge` mean."""
        side, _, whom = target.partition("/")
        return [name for name in self._links if name.startswith(f"{side}/") and whom in ("all", name.partition("/")[2])]

    async def provider_calls(self) -> list[dict[str, object]]:
        """Every call that the provider saw."""
        _, body = await request("GET", self._provider, "/calls", timeout=30.0)
        calls: list[dict[str, object]] = json.loads(body)
        return calls

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Something the product needs is away: a process may refuse to start until shortly afterwards."""
        self._away += 1
        try:
            yield
        finally:
            self._away -= 1
            self._away_at = time.monotonic()

    def _may_refuse(self) -> bool:
        return self._away > 0 or time.monotonic() < self._away_at + _AFTERWARDS

    def stop(self, *, keep: Path | None) -> None:
        """End everything and remove its data; with `keep`, the logs go there first."""
        for service in self.services:
            service.signal(signal.SIGCONT)
        for service in self.services:
            service.stop(timeout=3.0)
        for helper in self._helpers:
            helper.end(signal.SIGKILL)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            logs = [*self.directory.glob("*.log"), self.postgres.log, *self._broker_files()]
            for log in logs:
                if log.exists():
                    shutil.copy(log, keep)
        if self.brokers is not None:
            self.brokers.stop()
        self.postgres.stop()
        remove(self.directory)
        faketime.forget_dead()

    def _broker_files(self) -> list[Path]:
        return [] if self.brokers is None else [*self.brokers.logs, *self.brokers.ledgers]

    def _start_network(self) -> None:
        whom = [*(str(number) for number in range(self._count)), "edge"]
        postgres = urlsplit(self.postgres.dsn)
        self._links = {} if self.brokers is None else dict(self.brokers.links)
        for number, who in enumerate(whom):
            self._links[f"postgres/{who}"] = (next(self._ports), f"{postgres.hostname}:{postgres.port}")
            if self.brokers is not None:
                addresses = self.brokers.addresses
                self._links[f"gateway/{who}"] = (next(self._ports), addresses[number % len(addresses)])
        self._control_port = next(self._ports)
        self._help("proxy", "tests.faults.proxy", str(self._control_port), json.dumps(self._links))

    def _start_provider(self) -> None:
        self._provider = f"{LOOPBACK}:{next(self._ports)}"
        self._help("provider", "tests.faults.provider", self._provider.rpartition(":")[2], str(self._seed))

    async def _start_commands(self) -> None:
        self._command_port = next(self._ports)
        self._help("commands", "tests.faults.command_server", str(self._command_port), settings=self._settings("edge"))
        for port in (self._command_port, int(self._provider.rpartition(":")[2])):
            await _listening(port)

    async def _prepare_database(self) -> None:
        migrated = await self.command("db", "migrate")
        if migrated is None or migrated[0] != 0:
            raise RuntimeError(f"the database cannot be migrated: {migrated}")
        connection = await asyncpg.connect(self.postgres.dsn)
        try:
            await connection.execute((APP_FOLDER / "schema.sql").read_text())
        finally:
            await connection.close()

    def _start_services(self) -> None:
        for number in range(self._count):
            port = next(self._ports)
            words = ["worker", "--app", APP, "--name", f"worker-{number}", "--http-port", str(port)]
            self.workers.append(self._service(f"worker-{number}", words, port, str(number)))
        keys = [
            {"name": name, "tenant": TENANT, "sha256": hashlib.sha256(key.encode()).hexdigest()}
            for name, key in OFFICERS.items()
        ]
        credentials = {"VERBWORKER_CONSOLE_CREDENTIALS": json.dumps({"api_keys": keys})}
        for name, options in {"console": (), "ingress": ("--insecure-no-auth",)}.items():
            port = self._edge_ports[name]
            words = [name, "--app", APP, "--port", str(port), *options]
            self.edges[name] = self._service(name, words, port, "edge", **credentials)
        for service in self.services:
            service.start()

    def _service(self, name: str, words: list[str], port: int, who: str, **more: str) -> Service:
        is_unguarded = self._guard is not None and words[0] == "worker"
        command = [str(COMMAND)]
        if is_unguarded:
            command = [sys.executable, "-m", "tests.faults.worker", str(self._guard)]
        preload = faketime.environment(self.clock_file(name)) if words[0] == "worker" else {}
        return Service(
            name,
            [*command, *words],
            environment=environment(None, **{**self._settings(who), **more, **preload}),
            directory=self.directory,
            health=f"{LOOPBACK}:{port}",
            may_refuse=self._may_refuse,
        )

    def clock_file(self, worker: str) -> Path:
        """Where a worker's clock is read from."""
        return self.directory / f"{worker}.clock"

    def _settings(self, who: str) -> dict[str, str]:
        parts = urlsplit(self.postgres.dsn)
        login = parts.netloc.rpartition("@")[0]
        port = self._links[f"postgres/{who}"][0]
        settings = {
            **_SETTINGS,
            **self._more,
            "VERBWORKER_DSN": urlunsplit(parts._replace(netloc=f"{login}@{LOOPBACK}:{port}")),
            "VERBWORKER_ENGINE": "embedded" if self.engine == "embedded" else "zeebe",
            "PYTHONPATH": str(_ROOT),
            "PYTHONFAULTHANDLER": "1",
            PROVIDER_ADDRESS: self._provider,
        }
        if self.brokers is not None:
            settings["ZEEBE_ADDRESS"] = f"{LOOPBACK}:{self._links[f'gateway/{who}'][0]}"
        return settings

    def _help(self, name: str, module: str, *words: str, settings: dict[str, str] | None = None) -> None:
        variables = {**os.environ, "PYTHONPATH": str(_ROOT)} if settings is None else environment(None, **settings)
        log = self.directory / f"{name}.log"
        self._helpers.append(
            spawn([sys.executable, "-m", module, *words], log=log, environment=variables, directory=self.directory)
        )


async def _listening(port: int, timeout: float = 30.0) -> None:
    async with asyncio.timeout(timeout):
        while True:
            try:
                _, writer = await asyncio.open_connection(LOOPBACK, port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return
