"""Native user tasks over REST, and the answer of a task listener that denies a change."""

from typing import Any, Final

from pyzeebe.proto import gateway_pb2 as pb

from verbworker.engine.protocol import OWN_ACTION
from verbworker.engine.zeebe import wire
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.errors import JobNotActive, TaskTaken

# Field numbers of the gateway's protocol since 8.8; the stubs are older and have no names for them.
_RESULT: Final = 3  # of CompleteJobRequest
_DENIED: Final = 1  # of JobResult
_DENIED_REASON: Final = 3  # of JobResult
_VARINT: Final = 0
_BYTES: Final = 2  # wire types

_TAKEN: Final = "already been assigned"  # in the engine's sentence, as 8.9.17 answered


class UserTaskCalls:
    """The user-task calls of REST v2. gRPC has none."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest

    async def complete(self, key: int) -> None:
        """Complete a task; waits for its listeners."""
        path = f"/user-tasks/{key}/completion"
        await self._rest.call("POST", path, {"action": OWN_ACTION}, what="the completion of a user task")

    async def assign(self, key: int, assignee: str, *, override: bool) -> None:
        """Assign a task; `TaskTaken` if another person has it."""
        body = {"assignee": assignee, "allowOverride": override, "action": OWN_ACTION}
        try:
            await self._rest.call("POST", f"/user-tasks/{key}/assignment", body, what="the assignment of a user task")
        except JobNotActive as error:
            if _TAKEN in str(error):
                raise TaskTaken(f"the user task {key} is assigned to another person in the engine") from error
            raise

    async def unassign(self, key: int) -> None:
        """Remove the assignee of a task."""
        await self._rest.call("DELETE", f"/user-tasks/{key}/assignee", what="the release of a user task")


def denial(job_key: int, reason: str) -> Any:
    """Return the completion of a listener's job that denies what it was asked."""
    result = _field(_DENIED, _VARINT) + b"\x01" + _text(_DENIED_REASON, wire.cut(reason).encode())
    known = wire.message(pb.CompleteJobRequest, jobKey=job_key, variables="{}")
    # Protobuf keeps fields that it has no name for, and sends them as they are.
    return pb.CompleteJobRequest.FromString(known.SerializeToString() + _text(_RESULT, result))


def _text(number: int, content: bytes) -> bytes:
    return _field(number, _BYTES) + _varint(len(content)) + content


def _field(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
