"""`verbworker erase`: remove what an ended entry holds about a person."""

from typing import Annotated

import typer

from verbworker.app import settings as config
from verbworker.app.output import busy, print_json, say, show
from verbworker.cli.client_runs import run_with_resources
from verbworker.cli.shared_options import By, Dsn, Json, Tenant, id_or_beginning
from verbworker.client.resources import Resources
from verbworker.stores.cases.erasure import Erased, Erasure
from verbworker.stores.cases.seals import Seals
from verbworker.stores.id_prefixes import IdPrefixes

EntryOption = Annotated[
    str, typer.Option("--entry", callback=id_or_beginning, help="Entry ID, or its beginning.", show_default=False)
]


def erase(
    entry: EntryOption,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be erased and change nothing.")] = False,
    by: By = "",
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Erase what an ended entry holds about a person. Exits 1 if it is unknown or still runs.

    Payload, arguments, answer, messages, results of jobs, reasons and texts are removed from every table and from the
    history of the embedded engine. Digests stay, so `verbworker runbook verify` still passes, and so do who acted, what
    was decided and when. Needs the role that owns the tables, and the keys of the seals (VERBWORKER_SEAL_KEYS) where
    workers have them. What was exported or backed up is not reached.
    """
    settings = config.load(dsn=dsn, tenant=tenant)

    async def work(resources: Resources) -> Erased:
        entry_id = await IdPrefixes(resources.database, settings.tenant).entry(entry)
        seals = Seals(resources.database, settings.seal_ring())
        return await Erasure(resources.database, seals).erase(settings.tenant, entry_id, by=by, dry_run=dry_run)

    with busy("counting" if dry_run else "erasing"):
        found = run_with_resources(settings, work)
    if as_json:
        print_json({"entry_id": str(found.entry_id), "dry_run": dry_run, "rows": dict(found.rows)})
        return
    show(
        [{"table": name, "rows": number} for name, number in found.rows.items()],
        columns=("table", "rows"),
        as_json=False,
    )
    word = "would be erased" if dry_run else "erased"
    say(f"{found.total} row(s) {word}" if found.total else "nothing is left to erase")
