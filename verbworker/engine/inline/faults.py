"""Faults on request: commands that are lost, unanswered or refused, and timeouts that never come."""

from collections.abc import Callable
from enum import StrEnum

from verbworker.errors import Backpressure, EngineUnavailable


class InjectedFault(StrEnum):
    """What goes wrong with a command."""

    LOSE = "the answer was lost"
    DROP = "the command was lost"
    REFUSE = "the engine is busy"


class Faults:
    """What will go wrong with the next commands, by their names; and whether activations still time out."""

    def __init__(self) -> None:
        self.loses_timeouts = False
        self._planned: dict[str, list[InjectedFault]] = {}

    def plan(self, command: str, fault: InjectedFault, times: int) -> None:
        """Have the next `times` commands of this name go wrong, after those that are planned already."""
        self._planned.setdefault(command, []).extend([fault] * times)

    def strike(self, command: str, act: Callable[[], None]) -> None:
        """Carry a command out, or do not, as planned."""
        planned = self._planned.get(command)
        fault = planned.pop(0) if planned else None
        if fault is InjectedFault.DROP:
            raise EngineUnavailable(fault.value)
        if fault is InjectedFault.REFUSE:
            raise Backpressure(fault.value)
        act()
        if fault is InjectedFault.LOSE:
            raise EngineUnavailable(fault.value)
