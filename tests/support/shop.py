"""A small application in a folder of its own, and its worker as an operator runs it: a process."""

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.children import Child, spawn
from tests.support.command import COMMAND, environment
from tests.support.connections import connection_to
from tests.support.http import ask
from tests.support.models import one_task
from tests.support.ports import LOOPBACK, free_ports
from tests.support.start import Begun, begin
from verbworker.contract.workflow import WorkflowVerb, load_verbs, workflow_verbs
from verbworker.engine.protocol import Resource
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.stores.database import Database

ENGINE_ID = "shop-cluster"
ITEM = "a-secret-diamond"
_TIMEOUT = 60.0

_MODULE = '''
import asyncio
import time
from pathlib import Path

from pydantic import BaseModel

from verbworker import Call, PermanentContract, Registry, Result

HERE = Path(__file__).parent
registry = Registry()


class Order(BaseModel):
    item: str
    charged: str | None = None


@registry.verb("{verb}", mode="{mode}", writes=("charged",))
async def charge(order: Order, call: Call) -> Result[Order]:
    """Charge an order; a file called `hold` lets it wait, a file called `refuse` makes it fail."""
    (HERE / "begun").touch()
    while (HERE / "hold").exists():
        await asyncio.sleep(0.02)
    if (HERE / "refuse").exists():
        raise PermanentContract("no such customer", code="NoCustomer")
    call.log.info("charging")
    charged = call.idempotency_key
    return Result(order.model_copy(update={{"charged": charged}}), flags={{"orch_charged": True}})


registry.load(HERE / "contracts")
'''
_CONTRACT = """
verb: shop.order
version: 1
strategy: workflow
process: {process}
args:
  item: {{type: string, required: true}}
payload:
  schema: shop.order/v1
  integrity: {integrity}
  initial: {{item: args.item}}
sub_verbs: [{verb}]
flags:
  orch_charged: {{type: boolean, initial: false}}
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """The application's folder and the names no other test uses."""

    folder: Path
    verb: str
    process: str

    @property
    def workflow(self) -> WorkflowVerb:
        """Its one workflow verb."""
        (workflow,) = workflow_verbs(load_verbs(self.folder / "contracts"))
        return workflow

    def put(self, name: str) -> None:
        """Put a file that the verb looks at."""
        (self.folder / name).touch()

    def take(self, name: str) -> None:
        """Take it away again."""
        (self.folder / name).unlink()

    def rewrite(self, old: str, new: str, *, sleep: str) -> None:
        """Change the verb's code, and how it waits."""
        module = self.folder / "shop.py"
        changed = module.read_text().replace(old, new).replace("await asyncio.sleep(0.02)", sleep)
        module.write_text(changed)

    def has_begun(self) -> bool:
        """Whether the verb ran."""
        return (self.folder / "begun").exists()


def make_shop(folder: Path, suffix: str, *, mode: str = "external", integrity: str = "plain") -> Shop:
    """Write the application into a folder."""
    shop = Shop(folder, f"shop.charge-{suffix}", f"shop-{suffix}")
    (folder / "contracts").mkdir()
    (folder / "shop.py").write_text(_MODULE.format(verb=shop.verb, mode=mode))
    contract = _CONTRACT.format(verb=shop.verb, process=shop.process, integrity=integrity)
    (folder / "contracts" / "order.yaml").write_text(contract)
    # People may start the step by itself.
    (folder / "contracts" / "charge.yaml").write_text(
        f"verb: {shop.verb}\nversion: 1\nargs:\n  item: {{type: string, required: true}}\n"
    )
    return shop


class WorkerProcess:
    """`verbworker worker` as a process with a health port and a log of its own."""

    def __init__(self, child: Child, port: int, log: Path) -> None:
        self._child = child
        self._address = f"{LOOPBACK}:{port}"
        self.log = log

    def send(self, number: signal.Signals) -> None:
        """Send a signal and do not wait."""
        os.kill(self._child.pid, number)

    def exit_code(self) -> int:
        """Wait for the end and say how it was."""
        wait_until(lambda: self._child.code() is not None, "the worker did not end")
        code = self._child.code()
        assert code is not None
        return code

    def get(self, path: str) -> tuple[int, Any]:
        """Ask the health server; status 0 while nobody answers."""
        try:
            return ask("GET", self._address, path)
        except OSError:
            return 0, None

    def until(self, path: str, status: int) -> Any:
        """Wait until the health server gives this answer, and return its body."""
        wait_until(lambda: self.get(path)[0] == status or self._has_ended(), f"{path} never answered {status}")
        assert not self._has_ended(), self.log.read_text()
        return self.get(path)[1]

    def until_logged(self, words: str) -> None:
        """Wait until the log says something."""
        wait_until(lambda: words in self.log.read_text(), f"never logged {words!r}")

    def end(self) -> int:
        """Drain and return the exit code."""
        return self._child.end(signal.SIGTERM, timeout=_TIMEOUT)

    def _has_ended(self) -> bool:
        return self._child.code() is not None


@contextmanager
def worker_process(shop: Shop, dsn: str, address: str, *options: str, **settings: str) -> Iterator[WorkerProcess]:
    """A running worker of the shop, ended in any case."""
    (port,) = free_ports(1)
    log = shop.folder / f"worker-{port}.log"
    given = {"VERBWORKER_ENGINE_ID": ENGINE_ID, "VERBWORKER_HTTP_PORT": str(port), "VERBWORKER_POLL_WAIT": "1"}
    child = spawn(
        [COMMAND, "worker", "--app", "shop:registry", *options],
        log=log,
        environment=environment(dsn, ZEEBE_ADDRESS=address, **{**given, **settings}),
        directory=shop.folder,
    )
    process = WorkerProcess(child, port, log)
    try:
        yield process
    finally:
        child.end(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Orders:
    """Where orders are placed: the engine and the database, open."""

    shop: Shop
    engine: ZeebeEngine
    database: Database

    async def order(self) -> Begun:
        """Start one instance."""
        return await begin(self.database, self.engine, self.shop.workflow, {"item": ITEM})


@asynccontextmanager
async def open_orders(shop: Shop, dsn: str, address: str) -> AsyncIterator[Orders]:
    """The shop's process, deployed, and the way to start it."""
    async with ZeebeEngine(connection_to(address), engine_id=ENGINE_ID) as engine, Database(dsn, size=2) as database:
        await engine.deploy([Resource(f"{shop.process}.bpmn", one_task(shop.process, shop.verb))])
        yield Orders(shop, engine, database)


def wait_until(holds: Any, complaint: str) -> None:
    """Return when something holds; a minute is too long."""
    deadline = time.monotonic() + _TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.02)
