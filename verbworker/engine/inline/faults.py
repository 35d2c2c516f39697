"""Injected faults: commands that are lost, unanswered or refused, and timeouts that never fire."""

from collections.abc import Callable
from enum import StrEnum

from verbworker.errors import Backpressure, EngineUnavailable


class InjectedFault(StrEnum):
    """A fault of a command."""

    LOSE = "the answer was lost"
    DROP = "the command was lost"
    REFUSE = "the engine is busy"


class Faults:
    """Planned faults of the next commands, by name, and whether activations still time out."""

    def __init__(self) -> None:
        self.loses_timeouts = False
        self._planned: dict[str, list[InjectedFault]] = {}

    def plan(self, command: str, fault: InjectedFault, times: int) -> None:
        """Make the next `times` commands of this name fail, after the faults already planned."""
        self._planned.setdefault(command, []).extend([fault] * times)

    def strike(self, command: str, act: Callable[[], None]) -> None:
        """Execute a command, or fail as planned."""
        planned = self._planned.get(command)
        fault = planned.pop(0) if planned else None
        if fault is InjectedFault.DROP:
            raise EngineUnavailable(fault.value)
        if fault is InjectedFault.REFUSE:
            raise Backpressure(fault.value)
        act()
        if fault is InjectedFault.LOSE:
            raise EngineUnavailable(fault.value)
