"""What the simulator finds in the product as it is: bugs that are not fixed yet. The list must shrink to nothing.

A finding that the simulator does not make any more fails the test, so that a fix takes its line off.
"""

from dataclasses import dataclass

from tests.simulator.faults import ALL
from tests.simulator.runner import Outcome


@dataclass(frozen=True, slots=True)
class Expected:
    """A known bug: the promises it breaks, under which faults, and where it is found."""

    sentence: str
    names: frozenset[str]  # of violations; one that ends with a star stands for all that begin so
    needs: frozenset[str]  # classes of faults, one of which a schedule must have
    faults: frozenset[str]  # the classes with which it is looked for
    seed: int  # where it was found last
    is_by_verdict: bool = False  # only where a job got the verdict of another instance's job

    def explains(self, outcome: Outcome, name: str) -> bool:
        """Whether a violation may be this bug."""
        if self.is_by_verdict and not outcome.has_foreign_verdict:
            return False
        return bool(outcome.classes & self.needs) and any(
            name == known or (known.endswith("*") and name.startswith(known[:-1])) for known in self.names
        )


def _expect(sentence: str, names: str, needs: str, faults: str, *, seed: int, is_by_verdict: bool = False) -> Expected:
    split = [frozenset(part.strip() for part in text.split(",")) for text in (names, needs, faults)]
    return Expected(sentence, split[0], split[1], split[2], seed, is_by_verdict)


_RECORDS = "records lost, commands lost, restored, keys reused"
_DEATHS = "kill, freeze, store lost, store down, store slow, control away, engine lost, engine slow, engine down, late"

EXPECTED = {
    "locked before it was known": _expect(
        "the engine locks the first job of an instance for ever before anything of ours knows the instance: a second"
        " start is left in the engine, and an entry whose instance was made again is taken for ended",
        "ended outside, instance left",
        "timeout lost",
        "timeout lost, records lost, kill",
        seed=179,
    ),
    "verdict for another job": _expect(
        "a worker completes a job whose key the engine gave to another instance meanwhile, and with it that one's step",
        "incident*, effect lost, payload wrong, effect twice, call under two keys, message lost, two instances",
        "keys reused",
        "freeze, restored, keys reused",
        seed=86,
    ),
    "verdict for another job stops both cases": _expect(
        "the same, and the payload that came with the verdict is not the instance's own: its next job is an incident,"
        " and the case whose verdict it was stands still; both are named",
        "stuck, instance left",
        "keys reused",
        ", ".join(ALL),
        seed=263638,
        is_by_verdict=True,
    ),
}


def unexplained(outcome: Outcome) -> list[str]:
    """The violations of a schedule that no known bug explains."""
    return [
        str(violation)
        for violation in outcome.violations
        if not any(known.explains(outcome, violation.name) for known in EXPECTED.values())
    ]
