"""`verbworker start-plain`: start a process that is not hollow. It has no verb, and so no entry."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verbworker.app import settings as config
from verbworker.app.output import answer, busy
from verbworker.cli.client_runs import run_with_resources
from verbworker.cli.shared_options import Dsn, EngineId, EngineName, Json, read_json
from verbworker.client.resources import Resources
from verbworker.errors import InvocationInvalid, NotFound, PermanentContract, Refused

if TYPE_CHECKING:
    from verbworker.engine.protocol import Started


def start_plain(
    process: Annotated[str, typer.Argument(help="ID of the deployed process.")],
    variables: Annotated[str, typer.Option("--variables", help="A JSON object, or @file.")] = "{}",
    dsn: Dsn = None,
    engine: EngineName = None,
    engine_id: EngineId = None,
    as_json: Json = False,
) -> None:
    """Start a process that is not hollow, with plain variables. Exits 1 if no such process is deployed.

    It has no entry in the runbook, and starting it twice makes two instances. A hollow process is started by its verb.
    """
    settings = config.load(dsn=dsn, engine=engine, engine_id=engine_id)
    try:
        given = read_json(variables)
    except PermanentContract as error:
        raise InvocationInvalid(f"the variables cannot be read: {error}") from None
    if not isinstance(given, dict):
        raise InvocationInvalid("the variables are not a JSON object")
    with busy("starting"):
        started = run_with_resources(settings, lambda resources: _start(resources, process, given), changes=True)
    sentence = f"{process} version {started.version}: instance {started.instance_key} started"
    answer(f"{sentence}; it is plain, so it has no entry in the runbook", asdict(started), as_json=as_json)


async def _start(resources: Resources, process: str, variables: dict[str, Any]) -> "Started":
    from verbworker.engine.protocol import Start
    from verbworker.model.weave import PLAIN_PROCESS
    from verbworker.stores import durability
    from verbworker.stores.deployments import Deployments

    settings = resources.settings
    await durability.require_writable(resources.database)
    deployment = await Deployments(resources.database, engine_id=settings.cluster()).latest(process)
    if deployment is None:
        raise NotFound(f"no process {process} is deployed on engine {settings.cluster()}; run: verbworker deploy")
    if deployment.verb != PLAIN_PROCESS:
        raise Refused(f"{process} is hollow; run: verbworker start '({deployment.verb} ...)'")
    engine = await resources.open_engine()
    tenant = settings.tenant_ids[0] if settings.tenant_ids else None
    return await engine.start(Start(process, variables, definition_key=deployment.definition_key, tenant_id=tenant))
