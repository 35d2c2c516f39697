"""The tutorial from its first line to its last, as a reader does it: in an empty folder, from built wheels."""

from collections.abc import Iterator

import pytest

from tests.support.distributions import borrow_dependencies, build, offline
from tests.support.docs_pages import pages
from tests.support.docs_terminal import Terminal
from tests.support.sessions import trail

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
    typed = 0
    for page in PAGES:
        files = []
        for block in page.blocks:
            if block.is_file:
                files.append(block)
                continue
            if block.language == "sh":
                terminal.save(files)
                files = []
                for line in block.lines:
                    terminal.type(line)
                    typed += 1
        terminal.save(files)

    assert typed > 20
