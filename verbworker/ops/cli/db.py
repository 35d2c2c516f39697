"""`verbworker db`: bring the database to this version's schema, or say where it stands."""

from dataclasses import asdict

import typer

from verbworker.ops import config
from verbworker.ops.cli.output import run, say, show
from verbworker.stores import _schema

app = typer.Typer(help="The database and its migrations.", no_args_is_help=True)

DSN = typer.Option(None, "--dsn", help="The Postgres database; else VERBWORKER_DSN.", show_default=False)


@app.command()
def migrate(dsn: str | None = DSN) -> None:
    """Apply the pending migrations. Safe to run from any number of pods at once."""
    applied = run(_schema.migrate(config.load(dsn=dsn).database()))
    for name in applied:
        say(f"applied {name}")
    say(f"the database is up to date, {len(applied)} migration(s) applied")


@app.command()
def status(dsn: str | None = DSN, as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List every migration; exit 1 when one is not applied as shipped."""
    states = run(_schema.status(config.load(dsn=dsn).database()))
    show([asdict(state) for state in states], columns=("name", "state", "applied_at"), as_json=as_json)
    if any(state.state != "applied" for state in states):
        raise typer.Exit(1)
