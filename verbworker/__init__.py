"""Durable verbs for Camunda 8: the public API for the authors and the callers of verbs."""

import importlib
import typing

if typing.TYPE_CHECKING:
    __version__: str
    """The version of the installed distribution."""

    from verbworker.client.client import Client
    from verbworker.client.entry_handle import EntryHandle
    from verbworker.client.sync_client import SyncClient, SyncEntryHandle
    from verbworker.contract.consumer import Consumer, Delivery
    from verbworker.contract.message import Message
    from verbworker.contract.person import Person
    from verbworker.contract.registry import Registry
    from verbworker.contract.task import TaskCall, task_call
    from verbworker.contract.verb import Call, Decision, ReceivedMessage, Result
    from verbworker.engine.protocol import Signal
    from verbworker.errors import (
        Failure,
        OutcomeUnknown,
        PermanentBusiness,
        PermanentContract,
        TransientExternal,
        TransientInfrastructure,
    )
    from verbworker.stores.messages.handoff import hand_off

__all__ = [
    "Call",
    "Client",
    "Consumer",
    "Decision",
    "Delivery",
    "EntryHandle",
    "Failure",
    "Message",
    "OutcomeUnknown",
    "PermanentBusiness",
    "PermanentContract",
    "Person",
    "ReceivedMessage",
    "Registry",
    "Result",
    "Signal",
    "SyncClient",
    "SyncEntryHandle",
    "TaskCall",
    "TransientExternal",
    "TransientInfrastructure",
    "hand_off",
    "task_call",
]

# Names load on first access. CPU time on one machine: `import verbworker` 33 ms, `Registry` 333 ms, all names 588 ms.
# So a module of verbs does not pay for the client and its settings, nor `verbworker --help` for either.
_PLACES = {
    **dict.fromkeys(("Call", "Decision", "ReceivedMessage", "Result"), "verbworker.contract.verb"),
    **dict.fromkeys(("SyncClient", "SyncEntryHandle"), "verbworker.client.sync_client"),
    "Client": "verbworker.client.client",
    "EntryHandle": "verbworker.client.entry_handle",
    **dict.fromkeys(("TaskCall", "task_call"), "verbworker.contract.task"),
    **dict.fromkeys(("Consumer", "Delivery"), "verbworker.contract.consumer"),
    "Message": "verbworker.contract.message",
    "Person": "verbworker.contract.person",
    "Registry": "verbworker.contract.registry",
    "Signal": "verbworker.engine.protocol",
    "hand_off": "verbworker.stores.messages.handoff",
}

# Hidden from type checkers, which would otherwise accept any name.
if not typing.TYPE_CHECKING:

    def __getattr__(name):
        """Load a public name on first access."""
        if name == "__version__":
            return importlib.import_module("importlib.metadata").version("verbworker")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(_PLACES.get(name, "verbworker.errors")), name)
        globals()[name] = found
        return found
