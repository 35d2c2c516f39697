"""What the simulator finds in the product as it is: known bugs that are not fixed yet. This list must shrink to nothing.

A finding that the simulator does not make any more fails the test, so that a fix takes its line off.
"""

from dataclasses import dataclass

from tests.simulator.runner import Outcome


@dataclass(frozen=True, slots=True)
class Expected:
    """A known bug: the promises it breaks, under which faults, and where it is found."""

    sentence: str
    names: frozenset[str]  # of violations; one that ends with a star stands for all that begin so
    needs: frozenset[str]  # classes of faults, one of which a schedule must have
    faults: frozenset[str]  # the classes with which it is looked for
    seeds: int = 2_000

    def explains(self, outcome: Outcome, name: str) -> bool:
        """Whether a violation may be this bug."""
        return bool(outcome.classes & self.needs) and any(
            name == known or (known.endswith("*") and name.startswith(known[:-1])) for known in self.names
        )


def _expect(sentence: str, names: str, needs: str, faults: str = "") -> Expected:
    split = [frozenset(part.strip() for part in text.split(",")) for text in (names, needs, faults or needs)]
    return Expected(sentence, *split)


_DOUBLED = "effect twice, payload wrong, call under two keys, two instances"
_STARTS = "start lost, store lost, store slow, store down, engine lost, engine slow, freeze, kill, late"
_RECORDS = "records lost, commands lost, restored, keys reused"

EXPECTED = {
    "twin starts": _expect(
        "issue 14, 1: a pin that was refused is ignored, and twin instances both work",
        f"{_DOUBLED}, instance left, stuck, incident*",
        _STARTS,
        "start lost, store slow",
    ),
    "lost timeout": _expect(
        "issue 14, 2: the engine is the only timer, and it may lose a job's",
        "stuck, frame left started, instance left",
        "timeout lost",
        "timeout lost, kill",
    ),
    "cancel kills a service": _expect(
        "issue 14, 4: an error in a group ends the service that sends cancels",
        "service died",
        "cancel",
        "cancel, store lost, engine lost, engine down, store down",
    ),
    "records lost": _expect(
        "issue 14, 6: a step that comes again under another key runs again, an instance under another key stops",
        f"{_DOUBLED}, stuck, instance left, ended outside, incident*, asked again, message twice, report left,"
        " verdict never acknowledged, frame left started",
        _RECORDS,
        "records lost",
    ),
    "left behind": _expect(
        "issue 14, 7: frames of instances that were cancelled stay started, or in incidents that nobody hears of",
        "frame left started, report left",
        "cancel, kill, freeze, start lost, store slow, store lost, engine lost, engine slow, engine down, late,"
        " timeout early, store down",
        "cancel, kill",
    ),
}


def unexplained(outcome: Outcome) -> list[str]:
    """The violations of a schedule that no known bug explains."""
    return [
        str(violation)
        for violation in outcome.violations
        if not any(known.explains(outcome, violation.name) for known in EXPECTED.values())
    ]
