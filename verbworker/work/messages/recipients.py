"""Which messages the deployed processes take: a message of any other name reaches no case."""

from verblint.names import nearest
from verbworker.engine.protocol import Resource
from verbworker.errors import NotFound
from verbworker.model.outline import outline
from verbworker.stores.deployments import Deployments


async def require_recipient(deployments: Deployments, engine_id: str, name: str) -> None:
    """Raise `NotFound` unless a deployed process takes messages of that name."""
    names: set[str] = set()
    newest: set[str] = set()
    for deployment in await deployments.list():
        # Older versions may have running cases; their waits are recorded.
        names |= {wait.message for wait in deployment.waits.values() if wait.message is not None}
        if deployment.process_id not in newest:
            newest.add(deployment.process_id)
            content = await deployments.content(deployment.definition_key) or b""
            names |= outline(Resource(deployment.resource, content)).messages
    if name in names:
        return
    if not newest:
        raise NotFound(f"no process takes the message {name}: nothing is deployed on the engine {engine_id}")
    near = nearest(name, sorted(names))
    hint = f"; did you mean {near}?" if near else f"; those deployed take {', '.join(sorted(names)) or 'none'}"
    raise NotFound(f"no deployed process takes the message {name}{hint}")
