"""The walks of `work/README.md` against a case that runs: what they name is what is called."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import verbworker
from tests.support.kyc import EXTRACT, PASSPORT, TABLES
from verbs import registry
from verbworker.dev.demo import screening
from verbworker.testing.play import Play

ROOT = Path(verbworker.__file__).parent
PAGE = (ROOT / "work" / "README.md").read_text()
CASE = '(kyc.open-case :entity "Allianz GmbH" :case-type "periodic-review")'
# A protocol has no code of its own.
SILENT = {"engine/protocol.py"}
# What only other runs call: a message that no case waits for.
OTHER_RUNS = {"stores/messages/dead_letters.py"}


def walks() -> dict[str, str]:
    """The text of each walk by its subject, without what is beside the way."""
    found = re.findall(r"^## A (\w+): \d+ files.*?\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return {
        what: "\n\n".join(part for part in text.split("\n\n") if not part.strip().startswith("Beside the walk"))
        for what, text in found
    }


def steps(text: str) -> set[str]:
    """The functions that a walk names."""
    return {name.rpartition(".")[2] for name in re.findall(r"`((?:[A-Z]\w+\.)?_?[a-z]\w*)`", text)}


@contextmanager
def traced(called: set[tuple[str, str]]) -> Iterator[None]:
    """Collect file and function of every call in the product."""
    prefix = f"{ROOT}/"

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix):
            called.add((code.co_filename.removeprefix(prefix), code.co_name))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.fixture
async def called(dsn: str, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """What one case calls from its deployment to its end, with a message and a decision."""
    found: set[tuple[str, str]] = set()
    with screening() as url, traced(found):
        monkeypatch.setenv("KYC_SCREENING_URL", url)
        async with Play.open(dsn, registry, ["processes/kyc-open-case"], schema=TABLES.read_text()) as play:
            entry_id = await play.ask(CASE)
            await play.send("kyc.documents-received", str(entry_id), {"documents": [PASSPORT, EXTRACT]})
            await play.decide(entry_id, "approve", reason="all is in order")
            await play.ended(entry_id)
    return found


async def test_every_file_and_function_of_the_walks_is_on_the_way(called: set[tuple[str, str]]) -> None:
    files, functions = {file for file, _ in called}, {name for _, name in called}
    missing: dict[str, list[str]] = {}
    for what, text in walks().items():
        named = set(re.findall(r"`([a-z_/]+\.py)`", text)) - SILENT - OTHER_RUNS
        absent = [name for name in sorted(named) if not {name, f"work/{name}"} & files]
        missing[what] = absent + sorted(steps(text) - functions)

    assert missing == {what: [] for what in ("job", "start", "message", "decision", "deployment")}


def test_the_walk_of_a_job_has_as_many_calls_as_it_says() -> None:
    (said,) = re.findall(r"^## A job: \d+ files, (\d+) calls$", PAGE, re.MULTILINE)

    # It was 45 before the modules were put together.
    assert len(steps(walks()["job"])) == int(said) <= 30
