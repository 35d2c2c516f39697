"""The tutorial from its first line to its last, as a reader does it: in an empty folder, from built wheels."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.support.distributions import borrow_dependencies, build, offline
from tests.support.docs_pages import pages
from tests.support.docs_terminal import Terminal
from tests.support.sessions import trail

PLACE = ("verbs/claim.py", 25)  # where the reader puts an error
PAGES = [page for page in pages() if page.name.startswith("tutorial/")]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal in an empty folder, on a machine where pip finds our wheels and everything they need."""
    with trail() as found:
        wheels = build(found.folder)["verbworker"].wheel.parent
        (found.folder / "home").mkdir()
        machine = offline(wheels, borrow_dependencies(found.folder / "borrowed"))
        opened = Terminal(found.folder / "home", {}, machine, sample=False)
        try:
            yield opened
        finally:
            opened.close()


@pytest.mark.timeout(1800)
@pytest.mark.req("TST-15")
def test_the_tutorial_works_from_an_empty_folder(terminal: Terminal) -> None:
    told: list[tuple[str, str]] = []
    for page in PAGES:
        files = []
        for block in page.blocks:
            if block.is_file:
                files.append(block)
                continue
            if block.language == "sh":
                terminal.save(files)
                files = []
                told.extend((line, terminal.type(line)) for line in block.lines)
        terminal.save(files)

    def answers(command: str) -> list[str]:
        return [said for line, said in told if line.startswith(command)]

    assert len(told) > 20
    # The error of one's own: its traceback in the terminal of dev, and its place where it is explained.
    log = (terminal.place / "dev.log").read_text()
    (page,) = (page for page in PAGES if page.name == "tutorial/error.md")
    for words in (f"file={PLACE[0]} line={PLACE[1]} function=register", "KeyError: 'P-7'"):
        assert words in log
        assert words in page.text
    assert re.search(rf'File ".*{PLACE[0]}", line {PLACE[1]}, in register\n', log)
    explained = f"the verb raised KeyError at {PLACE[0]}:{PLACE[1]} in register"
    assert explained in answers("verbworker frames explain")[0]
    assert explained in page.text
    # How the cases ended.
    rejected, paid = answers("verbworker runbook show")
    assert ": completed as rejected, " in rejected
    assert ": completed as paid, " in paid
    missing, conflict = (json.loads(said)["detail"] for said in answers("curl --silent"))
    assert "has no entry whose id begins with 00000000" in missing
    assert "C-2000" in conflict
    read = json.loads(answers("curl --fail --silent http")[-1])
    assert (read["status"], read["outcome"]["status"]) == ("completed", "paid")
