"""`verbworker engine`: what the embedded engine holds of a case."""

from dataclasses import asdict
from typing import Annotated

import typer

from verbworker.app import settings as config
from verbworker.app.output import print_json, show
from verbworker.cli.client_runs import run_with_client
from verbworker.cli.shared_options import ANY_ID, Dsn, EntryId, Json, Tenant
from verbworker.client.client import Client
from verbworker.errors import CannotRun
from verbworker.stores.cases.instances import Instances
from verbworker.stores.embedded.token_rows import TokenRow, TokenRows
from verbworker.stores.embedded.tokens import Tokens

app = typer.Typer(help="The embedded engine: the tokens of a case.", no_args_is_help=True)

_COLUMNS = (
    *("id", "instance_id", "node_id", "status", "mode", "parallel_group_id", "version"),
    *("created_at", "updated_at"),
)


@app.callback()
def _commands() -> None:
    # With a callback, typer keeps `tokens` a command of its own although there is only one.
    pass


@app.command(epilog=f"Example: verbworker engine tokens {ANY_ID} --history")
def tokens(
    entry_id: EntryId,
    history: Annotated[bool, typer.Option("--history", help="Also the tokens that have ended.")] = False,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the tokens of an entry on the embedded engine. Exits 1 if it does not exist.

    One row per token: the element that it may execute, its status, its mode, the innermost fork that it is inside of,
    and its version, which grows with each transition. Ended tokens are kept for VERBWORKER_ENGINE_RETENTION.
    """

    async def read(client: Client) -> list[TokenRow]:
        entry = await client.entry(entry_id)
        database = client.resources.database
        carrier = await Instances(database).of_entry(entry.entry_id)
        if carrier is None or carrier.instance_key is None:
            return []
        if carrier.engine_id != await Tokens(database).engine_name():
            raise CannotRun(
                f"entry {entry.entry_id} runs on {carrier.engine_id!r}, which is not the embedded engine of this"
                f" database; ask that engine where the case is: verbworker runbook where {entry.entry_id}"
            )
        stored = TokenRows(database)
        ended = await stored.list_history(carrier.instance_key) if history else []
        return sorted([*ended, *await stored.list_live(carrier.instance_key)], key=lambda token: token.id)

    rows = [asdict(token) for token in run_with_client(config.load(dsn=dsn, tenant=tenant), read)]
    if as_json:
        print_json(rows)
    else:
        show(rows, columns=_COLUMNS, as_json=False)
