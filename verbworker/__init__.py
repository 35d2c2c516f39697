"""Durable verbs for Camunda 8: the public API for verb authors."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from verbworker.contract.message import Message
    from verbworker.contract.registry import Registry
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
    "Decision",
    "Failure",
    "Message",
    "OutcomeUnknown",
    "PermanentBusiness",
    "PermanentContract",
    "ReceivedMessage",
    "Registry",
    "Result",
    "Signal",
    "TransientExternal",
    "TransientInfrastructure",
    "hand_off",
]

_PLACES = {
    **dict.fromkeys(("Call", "Decision", "ReceivedMessage", "Result"), "verbworker.contract.verb"),
    "Message": "verbworker.contract.message",
    "Registry": "verbworker.contract.registry",
    "Signal": "verbworker.engine.protocol",
    "hand_off": "verbworker.stores.messages.handoff",
}

# Hidden from type checkers, which would otherwise accept any name.
if not typing.TYPE_CHECKING:

    def __getattr__(name):
        """Load a public name on first access, so that `--help` imports none of them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(_PLACES.get(name, "verbworker.errors")), name)
        globals()[name] = found
        return found
