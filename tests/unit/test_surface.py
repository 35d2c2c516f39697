"""What users hold on to changes on purpose only."""

import json

import pytest

from tests.surface import PROMISED, surface

PARTS = json.loads(PROMISED.read_text())


@pytest.mark.parametrize("part", PARTS)
def test_users_find_what_was_promised(part: str) -> None:
    assert surface()[part] == PARTS[part], "run `python -m tests.surface > tests/surface.json` if that is meant"


def test_every_part_is_promised() -> None:
    assert sorted(surface()) == sorted(PARTS)
