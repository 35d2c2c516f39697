"""The other side of external verbs, as a process of its own: `python -m tests.faults.provider PORT SEED`.

It honours idempotency keys and remembers every call. By the dice of its seed it is slow, fails before the effect,
or does the effect and loses its answer.
"""

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict, dataclass
from uuid import uuid4

from tests.faults.web import LOOPBACK

# From its fourth call on a step meets a provider in order, so that no policy runs out of attempts.
_UNRULY_CALLS = 3


@dataclass(frozen=True, slots=True)
class Received:
    """One call as the provider saw it. `is_new` says that its key was not known, so that the effect happened."""

    key: str
    entry: str
    step: str
    pid: int
    at: float
    is_new: bool
    mood: str


class Provider:
    """Does each effect once per key."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._receipts: dict[str, str] = {}
        self.calls: list[Received] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                (int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")), 0
            )
            body = await reader.readexactly(length)
            if head.startswith("GET"):
                _say(writer, 200, [asdict(call) for call in self.calls])
            else:
                await self._take(json.loads(body), writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _take(self, wanted: dict[str, object], writer: asyncio.StreamWriter) -> None:
        key, step = str(wanted["key"]), str(wanted["step"])
        count = sum(call.step == step and call.entry == wanted["entry"] for call in self.calls)
        dice = random.Random(f"{self._seed}/{wanted['number']}/{step}/{count}")
        moods = ("well", "slow", "down", "silent", "broken")
        mood = dice.choices(moods, (70, 12, 7, 7, 4))[0] if count < _UNRULY_CALLS else "well"
        is_new = mood != "down" and key not in self._receipts
        self.calls.append(Received(key, str(wanted["entry"]), step, int(str(wanted["pid"])), time.time(), is_new, mood))
        if mood == "down":
            _say(writer, 503, {"error": "nothing was done"})
            return
        receipt = self._receipts.setdefault(key, "refused" if wanted["refuse"] else str(uuid4()))
        if mood == "slow":
            await asyncio.sleep(dice.uniform(0.2, 1.5))
        if mood == "silent":
            return
        _say(writer, 500 if mood == "broken" else 200, {"receipt": receipt})


def _say(writer: asyncio.StreamWriter, status: int, body: object) -> None:
    content = json.dumps(body).encode()
    writer.write(f"HTTP/1.1 {status} -\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)


async def _main() -> None:
    server = await asyncio.start_server(Provider(sys.argv[2]).serve, LOOPBACK, int(sys.argv[1]))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
