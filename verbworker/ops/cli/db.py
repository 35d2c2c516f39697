"""`verbworker db`: bring the database to this version's schema, or say where it stands."""

from dataclasses import asdict

import typer

from verbworker.ops import config
from verbworker.ops.cli.output import busy, print_json, run, say, show
from verbworker.stores import _schema

app = typer.Typer(help="The database and its migrations.", no_args_is_help=True)

DSN = typer.Option(None, "--dsn", help="The Postgres database; else VERBWORKER_DSN.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command(epilog="Example: verbworker db migrate --dsn postgresql://kyc@localhost/cases")
def migrate(dsn: str | None = DSN, as_json: bool = JSON) -> None:
    """Apply the pending migrations. Safe to run from any number of pods at once."""
    address = config.load(dsn=dsn).database()
    with busy("applying migrations"):
        applied = run(_schema.migrate(address))
    if as_json:
        print_json({"applied": applied})
        return
    for name in applied:
        say(f"applied {name}")
    say(f"the database is up to date, {len(applied)} migration(s) applied")


@app.command(epilog="Example: verbworker db status --json")
def status(dsn: str | None = DSN, as_json: bool = JSON) -> None:
    """List every migration; exit 1 when one is not applied as shipped."""
    states = run(_schema.status(config.load(dsn=dsn).database()))
    show([asdict(state) for state in states], columns=("name", "state", "applied_at"), as_json=as_json)
    if any(state.state != "applied" for state in states):
        raise typer.Exit(1)
