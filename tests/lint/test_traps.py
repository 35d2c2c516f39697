"""Every trap that was once sprung on an engine or a linter is met with the right verdict, and with no other."""

import pytest

from tests.support.fixture_models import FixtureModel, fixture_models

TRAPS = fixture_models("traps")


def _name(model: FixtureModel) -> str:
    return model.path.stem


@pytest.mark.req("LNT-02", "LNT-03", "LNT-08", "LNT-09")
@pytest.mark.parametrize("trap", TRAPS, ids=_name)
def test_a_trap_is_met_with_exactly_these_errors(trap: FixtureModel) -> None:
    assert {finding.code for finding in trap.errors()} == trap.expected
