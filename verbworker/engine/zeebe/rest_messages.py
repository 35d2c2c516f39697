"""Messages over REST, which alone offers correlation."""

from typing import Any

from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.errors import EngineUnavailable


async def correlate(client: RestClient, name: str, correlation_key: str, variables: object, tenant: str) -> int | None:
    """Deliver a message to a current subscriber; return its instance key, or None without one."""
    body: dict[str, Any] = {"name": name, "correlationKey": correlation_key, "variables": variables}
    if tenant:
        body["tenantId"] = tenant
    answer = await client.call(
        "POST", "/messages/correlation", body, what="the correlation of a message", settled=(404,)
    )
    if answer is None:
        return None
    try:
        return int(answer["processInstanceKey"])
    except (KeyError, TypeError, ValueError) as error:
        raise EngineUnavailable("Zeebe correlated a message and did not say with which instance") from error
