"""The list of commands says of each what the command says of itself."""

import pytest

from verbworker.cli.lazy_commands import PLACES


@pytest.mark.parametrize("name", PLACES)
def test_a_card_says_what_its_command_says(name: str) -> None:
    command = PLACES[name].load(name)

    first = " ".join((command.help or "").split("\n\n")[0].split())
    assert (command.name, first) == (name, PLACES[name].help)
