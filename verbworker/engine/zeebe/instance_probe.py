"""Whether a process instance exists: gRPC has no query, and REST search is not always available.

The question is a modification that the engine must refuse, so nothing changes, and the refusal tells what the key
stands for. A key alone says little: a broker that lost its last records gives the keys of lost instances to elements of
others, and an element accepts most commands as an instance does.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pyzeebe.proto import gateway_pb2 as pb

from verbworker.engine.zeebe import wire
from verbworker.engine.zeebe.status import Rpc
from verbworker.errors import AccessDenied, CommandInvalid, InstanceSuspended, JobGone

_NO_ELEMENT: Final = "verbworker-is-it-alive"
# Of a modification that activates an element which the process does not have.
_UNKNOWN_ELEMENT: Final = re.compile(rf"instance of process '([^']+)'.* could not be found: '{_NO_ELEMENT}'", re.DOTALL)
_NOT_OF_INSTANCE: Final = "does not belong to the modified process instance"

_Send = Callable[[Rpc, Any], Awaitable[Any]]


async def exists(send: _Send, instance_key: int) -> bool:
    """Return whether there is a process instance with this key."""
    try:
        return await _is_process_instance(send, instance_key)
    except JobGone:
        return False
    except InstanceSuspended:
        return True
    except AccessDenied:
        return await _accepts_variables(send, instance_key)


async def _is_process_instance(send: _Send, instance_key: int) -> bool:
    told = await _refusal(send, instance_key, _NO_ELEMENT)
    process = _UNKNOWN_ELEMENT.search(told)
    if process is None:
        return await _accepts_variables(send, instance_key)
    # No process is inside of itself. Of an element's key the engine says first that it is not the instance's.
    return _NOT_OF_INSTANCE not in await _refusal(send, instance_key, process[1], inside=instance_key)


async def _refusal(send: _Send, instance_key: int, element_id: str, *, inside: int = 0) -> str:
    instruction = pb.ModifyProcessInstanceRequest.ActivateInstruction(
        elementId=element_id, ancestorElementInstanceKey=inside
    )
    request = wire.message(
        pb.ModifyProcessInstanceRequest, processInstanceKey=instance_key, activateInstructions=[instruction]
    )
    try:
        await send("ModifyProcessInstance", request)
    except CommandInvalid as refused:
        return str(refused)
    return ""


async def _accepts_variables(send: _Send, instance_key: int) -> bool:
    """Ask by a command that sets no variable, for a client that must not modify instances; elements accept it too."""
    request = wire.message(pb.SetVariablesRequest, elementInstanceKey=instance_key, variables="{}", local=True)
    try:
        await send("SetVariables", request)
    except JobGone:
        return False
    except InstanceSuspended:
        return True
    return True
