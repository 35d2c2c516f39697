"""`verbworker incidents`: list what waits for an operator, show why, and resolve it."""

from typing import Annotated

import typer

from verbworker.app import settings as config
from verbworker.app.output import COUNTED, answer, busy, moment, print_json, say, show, show_first
from verbworker.cli.client_runs import run_with_client
from verbworker.cli.shared_options import (
    ANY_ID,
    AsNew,
    AsNewConfirmed,
    By,
    Cursor,
    Dsn,
    EngineId,
    Json,
    Limit,
    Reason,
    Retries,
    Tenant,
    confirm_as_new,
    id_or_beginning,
)
from verbworker.client.incident_actions import read_flags
from verbworker.client.incident_records import IncidentDetail

app = typer.Typer(help="Incidents: cases that wait for an operator.", no_args_is_help=True)

Where = Annotated[
    str,
    typer.Argument(
        callback=id_or_beginning,
        help="Incident ID or entry ID, or its beginning; or the key of the job.",
        metavar="INCIDENT_OR_ENTRY",
    ),
]


@app.command("list", epilog="Example: verbworker incidents list --json")
def list_incidents(
    cursor: Cursor = None, limit: Limit = 100, tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """List what waits for an operator, longest wait first: held jobs, and incidents that the engine raised."""
    settings = config.load(dsn=dsn, tenant=tenant)
    most = limit if as_json else limit + COUNTED
    page = run_with_client(settings, lambda client: client.incidents(without_entry=True, limit=most, cursor=cursor))
    if as_json:
        print_json(page.model_dump(mode="json"))
        return
    rows = [{**one.model_dump(mode="json"), "incident": one.which} for one in show_first(page.incidents, limit)]
    show(rows, columns=("incident", "kind", "element_id", "why", "since", "subject"), as_json=False)


@app.command("show", epilog=f"Example: verbworker incidents show {ANY_ID}")
def show_incident(where: Where, tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show one incident and the history of its job. Exits 1 if it does not exist or is resolved."""
    settings = config.load(dsn=dsn, tenant=tenant)
    found = run_with_client(settings, lambda client: client.incident(where, without_entry=True))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    say(found.reason)
    facts = [{"name": name, "value": value} for name, value in _facts(found) if value is not None]
    show(facts, columns=("name", "value"), as_json=False)
    if found.headline:
        say(f"{found.headline} Times are UTC.")
    for line in found.story:
        say(f"{moment(line.at)}  {line.text}")


@app.command(epilog=f"Example: verbworker incidents resolve {ANY_ID} --reason 'the provider is back'")
def resolve(
    where: Where,
    reason: Reason,
    by: By = "",
    retries: Retries = 3,
    as_new: AsNew = False,
    flags: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Set a flag before, for a gateway that found no way; may be repeated."
        ),
    ] = None,
    yes: AsNewConfirmed = False,
    tenant: Tenant = None,
    dsn: Dsn = None,
    engine_id: EngineId = None,
    as_json: Json = False,
) -> None:
    """Resolve an incident: its job gets retries, and the engine tries again. Exits 1 if the engine refuses."""
    settings = config.load(dsn=dsn, tenant=tenant, engine_id=engine_id)
    given = read_flags(flags or ())
    if as_new and not yes:
        confirm_as_new("Resolve it as new?")
    with busy("resolving"):
        done = run_with_client(
            settings,
            lambda client: client.resolve(
                where, reason, retries=retries, as_new=as_new, flags=given, without_entry=True
            ),
            by=by,
        )
    answer(done.sentence, done.model_dump(mode="json"), as_json=as_json)


def _facts(found: IncidentDetail) -> list[tuple[str, object]]:
    names = "incident_id entry_id element_id since verb runs retries_left engine_id instance_key job_key incident_key"
    facts: list[tuple[str, object]] = [("type", found.kind), ("why", found.why), ("subject", found.subject)]
    facts += [(name, getattr(found, name)) for name in names.split()]
    facts[facts.index(("since", found.since))] = ("since", f"{moment(found.since)} UTC")
    engine_text = None if found.incident_text == found.why else found.incident_text
    which = found.which
    change = " --set FLAG=VALUE" if found.kind == "CONDITION_ERROR" else ""
    todo = f"fix the cause, then: verbworker incidents resolve {which} --reason ...{change}"
    return [*facts, ("engine says", engine_text), ("operate", found.operate_url), ("what to do", todo)]
