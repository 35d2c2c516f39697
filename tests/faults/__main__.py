"""`python -m tests.faults --engine zeebe --entries 320 --seed 7`: one fault run; exit 1 when a promise was broken."""

import argparse
import asyncio
import functools
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.faults import faketime
from tests.faults.evidence import write_evidence
from tests.faults.guards import GUARDS
from tests.faults.plan import Plan, make_plan
from tests.faults.run import Run, Verdict
from tests.faults.site import Site
from tests.support.errors import Broken, Unavailable


def main() -> int:
    """Run once and print the verdict, last of all the line that counts."""
    parser = argparse.ArgumentParser(prog="tests.faults", description="Hold the product to its promises under faults.")
    parser.add_argument("--engine", choices=("embedded", "zeebe", "cluster"), default="embedded")
    parser.add_argument("--entries", type=int, default=320)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--faults", default="", help="only these kinds, separated by commas")
    parser.add_argument("--without", choices=sorted(GUARDS), default=None, help="take one guard of the product out")
    parser.add_argument("--naive", action="store_true", help="verbs write outside of their transaction: must go red")
    parser.add_argument("--dir", default=os.environ.get("FAULTS_DIR", ""), help="where a red run leaves its evidence")
    chosen = parser.parse_args()
    kinds = frozenset(chosen.faults.split(",")) if chosen.faults else None
    plan = make_plan(chosen.engine, chosen.entries, chosen.seed, workers=chosen.workers, kinds=kinds)
    faketime.install()
    make_site = functools.partial(
        Site, plan.engine, workers=chosen.workers, seed=plan.seed, guard=chosen.without, naive=chosen.naive
    )
    try:
        verdict, folder = run_plan(plan, make_site, folder=chosen.dir)
    except (Unavailable, Broken) as reason:
        print(reason, file=sys.stderr)
        return 2
    for one in verdict.findings:
        print(f"{one.kind}: {one.entry}: {one.text}")
    for death in verdict.deaths:
        print(f"death: {death.name} {death.reason}")
    for note in verdict.notes:
        print(note)
    if folder is not None:
        print(f"evidence: {folder}")
    print(verdict.line())
    return 0 if verdict.is_green else 1


def run_plan(
    plan: Plan,
    make_site: Callable[[], Site],
    *,
    folder: str = "",
    afterwards: Callable[[Run], Awaitable[None]] | None = None,
) -> tuple[Verdict, Path | None]:
    """Play a plan on a site of its own; the path is where a red run left its evidence.

    `afterwards` gets the run while its servers still stand, when it was green.
    """
    return asyncio.run(_run(plan, make_site(), folder, afterwards))


async def _run(
    plan: Plan, site: Site, folder: str, afterwards: Callable[[Run], Awaitable[None]] | None
) -> tuple[Verdict, Path | None]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    kept: Path | None = None
    has_started = False
    try:
        await site.start()
        has_started = True
        run = Run(plan, site)
        verdict = await run.execute()
        if verdict.is_green:
            if afterwards is not None:
                await afterwards(run)
        else:
            kept = _evidence_folder(folder)
            await write_evidence(run, verdict, kept)
        await run.world.close()
        return verdict, kept
    except BaseException as error:
        if isinstance(error, (Unavailable, Broken)) and not (has_started or folder):
            raise  # a broker that cannot start says nothing of the product
        kept = kept or _evidence_folder(folder)  # a run that breaks off leaves its logs too
        error.add_note(f"evidence: {kept}")
        raise
    finally:
        await asyncio.to_thread(site.stop, keep=kept)


def _evidence_folder(folder: str) -> Path:
    return Path(folder) if folder else Path(tempfile.mkdtemp(prefix="verbworker-faults-"))


if __name__ == "__main__":
    sys.exit(main())
