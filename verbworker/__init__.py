"""Durable verbs for Camunda 8: this is everything a verb's author needs."""

from verbworker.engine import Signal
from verbworker.errors import (
    Failure,
    OutcomeUnknown,
    PermanentBusiness,
    PermanentContract,
    TransientExternal,
    TransientInfrastructure,
)
from verbworker.registry import Registry
from verbworker.stores.handoff import hand_off
from verbworker.verb import Call, Decision, ReceivedMessage, Result

__all__ = [
    "Call",
    "Decision",
    "Failure",
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
