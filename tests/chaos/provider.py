"""The outside world: a process that remembers every call and keeps one effect per key, as a good provider does."""

import argparse
import asyncio
import sqlite3
import sys
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support.children import Child, spawn
from tests.support.ports import LOOPBACK, free_ports

_TABLES = """
CREATE TABLE call (number INTEGER, key TEXT, epoch INTEGER);
CREATE TABLE effect (key TEXT PRIMARY KEY, number INTEGER);
"""
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Calls:
    """What the provider saw: how often it was called, the effects that had, and the keys each number came under."""

    calls: int
    effects: int
    keys: dict[int, set[str]]

    @property
    def most_keys(self) -> int:
        """The keys that one number came under at most."""
        return max((len(keys) for keys in self.keys.values()), default=0)

    @property
    def repeated(self) -> int:
        """Calls whose key had been seen before."""
        return self.calls - sum(len(keys) for keys in self.keys.values())

    def __str__(self) -> str:
        return f"{self.calls} calls, {self.effects} effects, {self.repeated} repeated, {self.most_keys} keys at most"


class Provider:
    """The provider as a test sees it: started, asked what it saw, ended. Nothing that fails elsewhere reaches it."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "provider.db"
        self._child: Child | None = None
        self.log = directory / "provider.log"
        self.address = f"{LOOPBACK}:{free_ports(1)[0]}"

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.chaos.provider", str(self._file), self.address]
        self._child = spawn(command, log=self.log, directory=Path.cwd())
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.end()

    async def ready(self) -> None:
        """Return when it answers."""
        async with asyncio.timeout(_TIMEOUT):
            while True:
                try:
                    _, writer = await _connect(self.address)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return

    def seen(self) -> Calls:
        """Everything it saw so far."""
        keys: dict[int, set[str]] = defaultdict(set)
        with closing(sqlite3.connect(self._file)) as database:
            calls = database.execute("SELECT number, key FROM call").fetchall()
            (effects,) = database.execute("SELECT count(*) FROM effect").fetchone()
        for number, key in calls:
            keys[number].add(key)
        return Calls(len(calls), effects, dict(keys))


async def call_provider(address: str, number: int, key: str, epoch: int) -> None:
    """Have the effect of `key`, for the first time or once more; returns when the provider has it for good."""
    reader, writer = await _connect(address)
    try:
        writer.write(f"{number} {key} {epoch}\n".encode())
        answer = await reader.readline()
    finally:
        writer.close()
    if answer != b"ok\n":
        raise ConnectionError("the provider did not answer")


async def _connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("address")
    chosen = parser.parse_args()
    with closing(sqlite3.connect(chosen.file, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(_TABLES)
        asyncio.run(_serve(database, chosen.address))


async def _serve(database: sqlite3.Connection, address: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # One statement each, so what is answered is written whatever becomes of the caller.
        if words := (await reader.readline()).split():
            number, key, epoch = int(words[0]), words[1].decode(), int(words[2])
            database.execute("INSERT INTO call VALUES (?, ?, ?)", (number, key, epoch))
            database.execute("INSERT OR IGNORE INTO effect VALUES (?, ?)", (key, number))
            writer.write(b"ok\n")
        writer.close()

    host, _, port = address.rpartition(":")
    server = await asyncio.start_server(answer, host, int(port))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    main()
