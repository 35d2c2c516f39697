"""The harness itself, without servers: plans repeat by their seed, and a control that takes nothing out says so."""

import pytest

from tests.faults.guards import GUARDS, Guard, GuardMissing, take_out
from tests.faults.plan import STEPS, make_plan


def test_the_same_seed_is_the_same_plan() -> None:
    assert make_plan("zeebe", 40, 7, workers=4) == make_plan("zeebe", 40, 7, workers=4)
    assert make_plan("zeebe", 40, 7, workers=4) != make_plan("zeebe", 40, 8, workers=4)


def test_a_plan_has_every_process_and_every_kind_of_people() -> None:
    entries = make_plan("embedded", 320, 7, workers=4).entries

    assert {entry.verb for entry in entries} == set(STEPS)
    assert any(entry.starts > 1 for entry in entries)
    assert any(entry.asker_dies_after is not None for entry in entries)
    assert any(entry.proof is not None and entry.proof.copies > 1 for entry in entries)
    assert any(entry.answers is not None and len(set(entry.answers.given)) > 1 for entry in entries)
    assert any(entry.cancel is not None and entry.cancel.is_certain for entry in entries)
    assert any(entry.refuse for entry in entries)


def test_what_is_surely_cancelled_can_end_in_no_other_way() -> None:
    certain = [
        entry
        for entry in make_plan("embedded", 320, 7, workers=4).entries
        if entry.cancel is not None and entry.cancel.is_certain
    ]

    assert all(entry.ends(None) == {"cancelled"} for entry in certain)
    assert all(entry.answers is None for entry in certain)


@pytest.mark.parametrize("place", [("", ""), ("verbworker.nowhere", "f"), ("verbworker.errors", "Nothing.here")])
def test_a_guard_that_is_not_there_stops_the_control(monkeypatch: pytest.MonkeyPatch, place: tuple[str, str]) -> None:
    monkeypatch.setitem(GUARDS, "pin", Guard(*place, lambda: None))

    with pytest.raises(GuardMissing):
        take_out("pin")
