"""Every command of README and guides is typed in its order, in a copy of the checkout, with real parts around it.

The tutorial is typed by `test_tutorial`. A command that cannot be typed is in `ELSEWHERE` with the reason; one that is
in neither fails with its own words.
"""

from pathlib import Path

import pytest

from tests.support.apart import run_apart
from tests.support.databases import execute
from tests.support.docs_pages import Block, Page, pages
from tests.support.docs_terminal import opened_terminal
from tests.support.engines import Gateway
from tests.support.logins import as_owner
from tests.support.sessions import trail
from verbworker.dev.demo import screening

ROOT = Path(__file__).parents[2]
# First what sets the database and the engine; then what needs them.
FIRST = ("how-to/run-a-worker.md",)
GUIDES = [page for page in pages() if page.name.startswith(("how-to/", "explanation/", "reference/", "index"))]
README = Page("README.md", (ROOT / "README.md").read_text())
CHAPTERS = [README, *sorted(GUIDES, key=lambda page: page.name not in FIRST)]

# What begins like this is not typed here, and why.
ELSEWHERE = {
    "git clone": "needs the repository's address; the terminal stands in a copy of it",
    "pip install": "needs an index that has verbworker; test_fresh_install has one of built wheels",
    "python -m venv": "the environment is the one the tests run in; test_fresh_install makes empty ones",
    "docker": "needs Docker; test_containers holds compose.yaml and the image to their words",
    "kubectl": "needs a cluster; test_kubernetes holds the manifests to theirs",
    "helm": "needs a cluster; its chart is rendered and validated where it is tested",
    "make demo ENGINE=zeebe": "test_demo plays it on a real broker",
    "make dist": "test_fresh_install runs it",
    "make docs": "test_docs_site builds it",
    "npm": "test_generated_client types that page",
    "npx": "test_generated_client types that page",
    "node": "test_generated_client types that page",
    "verbworker repl": "needs a terminal; test_repl types into one",
    "verbworker consume --from bus:documents": "needs a bus; test_consume_nats runs one",
    "verbworker consume --from postgres": "runs until it is stopped; test_consume does",
    "verbworker worker --app orders:registry": "needs models with its job types; test_plain_worker runs such a worker",
}
# A page that has a line beginning like this is not typed at all, and why. Its commands must exist all the same.
PAGES_ELSEWHERE = {
    "export CAMUNDA_": "needs an account at Camunda's SaaS; test_zeebe_access speaks OAuth to a server of its own",
    "kubectl ": "needs a cluster",
    "npm ": "test_generated_client types it, with Node.js",
}
# What may be typed. A line that begins otherwise was never thought of.
TYPED = (
    *("verbworker ", "verblint ", "make demo", "export ", ". ", "cd ", "python -m pytest", "python -m mypy"),
    *("python -c ", "python ask.py", "mkdir ", "tr ", "pg_dump ", "pg_restore ", "createdb "),
)


def place_of(line: str) -> str | None:
    """Where a line is tried: here, elsewhere, or nowhere."""
    if any(line == start or line.startswith(f"{start} ") for start in ELSEWHERE):
        return "elsewhere"
    return "here" if line.startswith(TYPED) else None


def is_elsewhere(page: Page) -> bool:
    """Whether a page as a whole needs something that is not here."""
    return any(line.startswith(tuple(PAGES_ELSEWHERE)) for line in page.lines)


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.name)
def test_no_page_shows_a_command_that_is_tried_nowhere(page: Page) -> None:
    assert [line for line in page.lines if place_of(line) is None] == []


@pytest.mark.zeebe
@pytest.mark.timeout(1800)
@pytest.mark.req("TST-15")
def test_every_command_works_in_its_order(dsn: str, broker: Gateway) -> None:
    # The pages migrate, erase and make roles too: all that is the owner's, and one terminal types everything.
    owner = {"VERBWORKER_DSN": as_owner(dsn), "VERBWORKER_OWNER_LOGIN": "allow"}
    given = {**owner, "VERBWORKER_ENGINE_ID": "docs", "ZEEBE_ADDRESS": broker.address}
    for tables in sorted((ROOT / "verbs").rglob("*.sql")):
        run_apart(execute(dsn, tables.read_text()))
    typed = 0
    with (
        trail() as found,
        screening() as url,
        opened_terminal(found.folder, given, KYC_SCREENING_URL=url, VERBWORKER_TEST_DSN=as_owner(dsn)) as terminal,
    ):
        for page in CHAPTERS:
            if is_elsewhere(page):
                continue
            terminal.go_home()
            files: list[Block] = []
            for block in page.blocks:
                if block.is_file:
                    files.append(block)
                for line in block.lines if block.language == "sh" else ():
                    terminal.save(files)
                    files = []
                    if place_of(line) == "here":
                        terminal.type(line)
                        typed += 1

    assert typed > 50
