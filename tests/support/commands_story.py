"""The 306 exchanges recorded from 8.10, each with the call of our engine that makes the request, or why none does."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from tests.support.recorded_8_10 import Said
from tests.support.recorded_story import MODEL, NotSent, OurCall, Send
from verbworker.engine.protocol import Ask, Resource, Signal, Start
from verbworker.job.outcome import NO_RESULT, JobResult

Body = Mapping[str, Any]

_NEVER: dict[str, str] = {
    "AssignProcessInstanceBusinessId": "a business id is given at the start only",
    "UpdateJobPriority": "jobs have no priorities of ours",
    "business-id-assignment": "a business id is given at the start only",
    "suspension": "an operator suspends in Operate; the refusals that follow are replayed",
    "resumption": "an operator resumes in Operate",
}
_BY_NAME: dict[str, str] = {
    "plain stream sees a timed-out leased job?": "nothing was asked or answered: an observation",
    "bad request": "a poll always names its timeout and its limit",
    "unknown field in the request": "sent on purpose to see the refusal; ours are known",
    "lease: token inside the changeset": "sent on purpose to see the refusal; ours is beside the changeset",
    "lease: update priority, right token": "jobs have no priorities of ours",
    "complete with another business id": "a completion carries no business id",
    "complete with the same business id": "a completion carries no business id",
    "complete assigning a business id": "a completion carries no business id",
    "update retries leased: wrong token": "an operator's command carries no token",
    "update retries leased: right token": "an operator's command carries no token",
}


def call_of(one: Said) -> OurCall | NotSent:
    """Our call for an exchange. `gives` stays open: the answer decides, see the test."""
    if one.name in _BY_NAME:
        return NotSent(_BY_NAME[one.name])
    word = one.rpc or one.path.rsplit("/", 1)[-1]
    if word in _NEVER:
        return NotSent(_NEVER[word])
    return _by_grpc(one) if one.transport == "gRPC" else _by_rest(one)


# ---- gRPC ------------------------------------------------------------------------------------------------------------


def _by_grpc(one: Said) -> OurCall:
    asks = one.request
    match one.rpc:
        case "Topology":
            return OurCall(lambda engine: engine.facts())
        case "DeployResource":
            files = [Resource(file["name"], b64decode(file["content"])) for file in asks["resources"]]
            return OurCall(lambda engine: engine.deploy(files))
        case "CreateProcessInstance":
            start = Start(asks["bpmnProcessId"], {}, business_id=asks.get("businessId"))
            return OurCall(lambda engine: engine.start(start), *_variables_of(asks))
        case "ActivateJobs" | "StreamActivatedJobs":
            return OurCall(_receive(one))
        case "CancelProcessInstance":
            return OurCall(lambda engine: engine.cancel(int(asks["processInstanceKey"])))
        case "PublishMessage":
            id_, ttl = asks.get("messageId", ""), int(asks.get("timeToLive", 0))
            signal = Signal(asks["name"], asks["correlationKey"], id_, ttl, {})
            return OurCall(
                lambda engine: engine.publish(signal), *_without("businessId", "messages carry no business id")
            )
        case "ResolveIncident":
            return OurCall(lambda engine: engine.resolve_incident(int(asks["incidentKey"])))
        case _:
            return _job_command(one.rpc, int(asks["jobKey"]), asks)


def _receive(one: Said) -> Send:
    asks = one.request
    ask = Ask(asks["type"], asks["worker"], int(asks["timeout"]), ())
    if one.rpc == "ActivateJobs":
        return lambda engine: engine.activate(ask, asks["maxJobsToActivate"], int(asks["requestTimeout"]))

    async def listen(engine: Any) -> list[Any]:
        return [job async for job in engine.stream(ask)]

    return listen


def _job_command(rpc: str, key: int, asks: Body) -> OurCall:
    token, retries, message = asks.get("leaseToken"), asks.get("retries", 0), asks.get("errorMessage", "")
    match rpc:
        case "CompleteJob" if "result" in asks:
            return OurCall(
                lambda engine: engine.complete(key, NO_RESULT, lease_token=token),
                *_without("result", "a listener that agrees sends no result"),
            )
        case "CompleteJob":
            return OurCall(lambda engine: engine.complete(key, NO_RESULT, lease_token=token), *_variables_of(asks))
        case "FailJob":
            return OurCall(lambda engine: engine.fail(key, retries=retries, message=message, lease_token=token))
        case "ThrowError":
            code = asks["errorCode"]
            return OurCall(lambda engine: engine.throw(key, code=code, message=message, lease_token=token))
        case "UpdateJobRetries":
            return OurCall(lambda engine: engine.release(key, retries=retries))
        case "UpdateJobTimeout":
            return OurCall(lambda engine: engine.extend(key, int(asks["timeout"]), lease_token=token))
    raise LookupError(rpc)


def _variables_of(asks: Body) -> tuple[Any, ...]:
    if asks.get("variables") == "{}":
        return ()
    return None, "the recording names the size of its variables; sent without", lambda body: {**body, "variables": "{}"}


def _without(name: str, why: str) -> tuple[Any, ...]:
    return None, why, lambda body: {field: value for field, value in body.items() if field != name}


# ---- REST ------------------------------------------------------------------------------------------------------------


def _by_rest(one: Said) -> OurCall:
    body, (collection, *keys) = one.request or {}, one.path.removeprefix("/v2/").split("/")
    key = int(keys[0]) if keys and keys[0].isdecimal() else 0
    match (collection, keys[-1] if keys else ""):
        case ("deployments", _):
            name = one.request.removeprefix("multipart: resources=")
            return OurCall(lambda engine: engine.deploy([Resource(name, MODEL)]))
        case ("process-instances", "cancellation"):
            return OurCall(lambda engine: engine.cancel(key))
        case ("process-instances", _):
            return _start(body)
        case ("jobs", "activation"):
            ask = Ask(body["type"], body["worker"], body["timeout"], tuple(body.get("fetchVariable", ())))
            why = "does not wait in the gateway (-1); asks for leases by their name or not at all"
            return OurCall(lambda engine: engine.activate(ask, body["maxJobsToActivate"], 0), None, why, _poll)
        case ("jobs", last):
            return _rest_job_command(last, key, body)
        case ("incidents", _):
            return OurCall(lambda engine: engine.resolve_incident(key))
        case ("messages", last):
            return _message(last, body)
        case ("user-tasks", "completion"):
            why = "names our action, by which our listener knows it, and no variables"
            return OurCall(lambda engine: engine.complete_user_task(key), None, why, lambda _: {"action": "verbworker"})
        case ("user-tasks", "assignment"):
            why = "names our action, by which our listener knows it"
            named = {"assignee": body["assignee"], "allowOverride": False, "action": "verbworker"}
            return OurCall(lambda engine: engine.assign_user_task(key, body["assignee"]), None, why, lambda _: named)
        case ("user-tasks", "assignee"):
            return OurCall(lambda engine: engine.unassign_user_task(key))
    raise LookupError(one.path)


def _start(body: Body) -> OurCall:
    definition_key = int(body["processDefinitionKey"]) if "processDefinitionKey" in body else None
    variables, business_id = body.get("variables", {}), body.get("businessId")
    start = Start(
        body.get("processDefinitionId", ""), variables, definition_key=definition_key, business_id=business_id
    )
    which = {"processDefinitionKey": body.get("processDefinitionKey")}
    if definition_key is None:
        which = {"processDefinitionId": body["processDefinitionId"], "processDefinitionVersion": -1}
    named = {**which, "variables": variables} | ({} if business_id is None else {"businessId": business_id})
    why = "names the version (-1 is the latest) and the variables, and no tags"
    return OurCall(lambda engine: engine.start(start), None, why, lambda _: named)


def _poll(body: Body) -> Body:
    named = {name: value for name, value in body.items() if name not in ("withLease", "tenantIds")}
    return {**named, "requestTimeout": -1} | ({"withLease": True} if body.get("withLease") else {})


def _rest_job_command(last: str, key: int, body: Body) -> OurCall:
    token = body.get("leaseToken")
    lease = {} if token is None else {"leaseToken": token}
    change = body.get("changeset", {})
    match last:
        case "completion":
            why = "always names the variables; no result is the default"
            named = {"variables": body.get("variables", {}), **lease}
            return OurCall(
                lambda engine: engine.complete(key, JobResult(flags=named["variables"]), lease_token=token),
                None,
                why,
                lambda _: named,
            )
        case "failure":
            retries, message = body["retries"], body.get("errorMessage", "")
            pause = body.get("retryBackOff", 0)
            sent = {"retries": retries, "errorMessage": message, "retryBackOff": pause, **lease}
            why = "always names the message and the backoff"
            return OurCall(
                lambda engine: engine.fail(key, retries=retries, message=message, backoff_ms=pause, lease_token=token),
                None,
                why,
                lambda _: sent,
            )
        case "error":
            code, message = body["errorCode"], body.get("errorMessage", "")
            thrown = {"errorCode": code, "errorMessage": message, **lease}
            return OurCall(
                lambda engine: engine.throw(key, code=code, message=message, lease_token=token),
                None,
                "always names the message",
                lambda _: thrown,
            )
        case _ if "retries" in change:
            return OurCall(lambda engine: engine.release(key, retries=change["retries"]))
        case _:
            return OurCall(lambda engine: engine.extend(key, change["timeout"], lease_token=token))


def _message(last: str, body: Body) -> OurCall:
    name, key = body["name"], body["correlationKey"]
    named = {"variables": {}, **{field: value for field, value in body.items() if field != "businessId"}}
    if last == "publication":
        return OurCall(lambda engine: engine.publish(Signal(name, key, body["messageId"], body["timeToLive"], {})))
    why = "names the variables, and no business id"
    order = {"name": name, "correlationKey": key, "variables": named["variables"]}
    return OurCall(lambda engine: engine.correlate(name, key, {}), None, why, lambda _: order)
