"""One fault run from the plan to the verdict."""

import asyncio
import contextlib
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.faults.driver import Driver
from tests.faults.nemesis import Nemesis
from tests.faults.oracle import Finding, Oracle
from tests.faults.plan import Plan
from tests.faults.recovery import percentile, recovery_times
from tests.faults.service import Death
from tests.faults.site import Site
from tests.faults.stalled import stalled_entries
from tests.faults.world import World

# Longer than lease, engine timeout, their graces and the reconciler's round together: what has not moved then stands.
_QUIET = 50.0
# What may be put away late: sweeps and reports that wait for the next round.
_PUT_AWAY = 40.0
# How long everything may take after the last fault, and again after the brokers were restarted. A limit on the whole
# run would judge the machine: with all processors busy, the faults alone can take five minutes and a restart one.
_LONGEST = 300.0


@dataclass(slots=True)
class Verdict:
    """How a run ended."""

    entries: int
    faults: int
    findings: list[Finding]
    deaths: list[Death]
    recovery: list[float]
    notes: list[str] = field(default_factory=list)

    @property
    def is_green(self) -> bool:
        """Whether every promise was kept."""
        return not self.findings and not self.deaths

    def line(self) -> str:
        """The last line of a run."""
        counts = Counter(one.kind for one in self.findings)
        kinds = " ".join(f"{kind}={counts[kind]}" for kind in ("lost", "doubled", "stuck", "left"))
        p99 = percentile(self.recovery, 0.99)
        return f"entries={self.entries} faults={self.faults} {kinds} deaths={len(self.deaths)} recovery_p99={p99:.1f}"


class Run:
    """Everything that happens in one run."""

    def __init__(self, plan: Plan, site: Site) -> None:
        self.plan = plan
        self.site = site
        self.world = World(site.postgres.dsn)
        self.driver = Driver(plan, site, self.world)
        self.nemesis = Nemesis(plan, site, self.world)
        self.notes: list[str] = []
        # What stood still without a word from the product when the brokers were restarted.
        self.unnamed: list[str] = []

    async def execute(self) -> Verdict:
        """Play the plan, wait for rest, and judge."""
        begin = time.monotonic()
        supervisors = [asyncio.create_task(service.supervise()) for service in self.site.services]
        watch = asyncio.create_task(self.world.watch())
        driver = asyncio.create_task(self.driver.play())
        try:
            await self.nemesis.rage()
            self._note(begin, "all faults were made")
            await self._settle(driver, begin)
            self._note(begin, "at rest")
            verdict = await self._judge(begin)
            for task in supervisors:
                task.cancel()
            verdict.deaths += await self._end_workers()
            return verdict
        finally:
            for task in (driver, watch, *supervisors):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await self.world.close()

    def _note(self, begin: float, words: str) -> None:
        self.notes.append(f"{time.monotonic() - begin:.0f} s: {words}")

    def _open(self) -> list[str]:
        status = self.world.seen.status
        return [one.number for one in self.plan.entries if status.get(one.number) in (None, "executing", "parked")]

    async def _settle(self, driver: "asyncio.Task[None]", begin: float) -> None:
        """Wait until everything has ended, or nothing moves any more; restart the broker for what the product names."""
        may_restart = self.site.brokers is not None
        settling_since = quiet_since = time.monotonic()
        shown_at = 0.0
        while time.monotonic() - settling_since < _LONGEST:
            if time.monotonic() - shown_at > 10:
                shown_at = time.monotonic()
                print(f"{shown_at - begin:6.1f} {len(self._open())} open", file=sys.stderr, flush=True)
            if driver.done() and driver.exception() is not None:
                raise driver.exception() or RuntimeError
            if not self._open() and driver.done():
                return
            await asyncio.sleep(0.5)
            if time.monotonic() - max(quiet_since, self.world.seen.progress_at) < _QUIET:
                continue
            named = await stalled_entries(self.site, self._open_ids())
            self._note(begin, f"nothing moves; open {self._open()}, {len(named)} of them named as stalled")
            if not may_restart or not named:
                return
            may_restart = False
            self.unnamed = [number for number in self._open() if self.world.seen.entry_id.get(number) not in named]
            await self._restart_brokers()
            self._note(begin, "the brokers were restarted")
            settling_since = quiet_since = time.monotonic()

    def _open_ids(self) -> list[str]:
        return [self.world.seen.entry_id[number] for number in self._open() if number in self.world.seen.entry_id]

    async def _restart_brokers(self) -> None:
        assert self.site.brokers is not None
        for number in range(len(self.site.brokers.nodes)):
            await self.site.brokers.restart(number)

    async def _judge(self, begin: float) -> Verdict:
        oracle = Oracle(self.plan, self.site, self.world, self.driver.heard)
        deadline = time.monotonic() + _PUT_AWAY
        while await oracle.left() and time.monotonic() < deadline:  # noqa: ASYNC110  # others put it away
            await asyncio.sleep(1.0)
        self._note(begin, "put away")
        findings = await self.judge_now()
        findings += await self._verify()
        stuck = {one.entry for one in findings if one.kind == "stuck"}
        findings += [
            Finding("stuck", number, "it stood still until the broker was restarted, and the product did not say so")
            for number in self.unnamed
            if number not in stuck
        ]
        times = await recovery_times(self.nemesis.made, self.world)
        deaths = [death for service in self.site.services for death in service.deaths]
        refused = sum(service.refused_starts for service in self.site.services)
        self.notes.append(
            f"{refused} starts were refused while a server was away; skipped: {set(self.nemesis.skipped)}"
        )
        return Verdict(len(self.plan.entries), len(self.nemesis.made), findings, deaths, times, self.notes)

    async def _end_workers(self) -> list[Death]:
        """End every worker in order; one that does not is a death too."""
        before = {worker.name: len(worker.deaths) for worker in self.site.workers}
        await asyncio.gather(*(asyncio.to_thread(worker.end_in_order) for worker in self.site.workers))
        return [death for worker in self.site.workers for death in worker.deaths[before[worker.name] :]]

    async def judge_now(self) -> list[Finding]:
        """Compare how everything stands with the plan."""
        return await Oracle(self.plan, self.site, self.world, self.driver.heard).judge()

    async def _verify(self) -> list[Finding]:
        answer = await self.site.command("runbook", "verify", "--json")
        if answer is not None and answer[0] == 0:
            return []
        return [Finding("lost", "runbook", f"the chain does not verify: {answer}")]
