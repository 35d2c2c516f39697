"""`verbworker dev` with the KYC case of the example, and everybody around it: a screening provider, a customer."""

import json
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.children import spawn
from tests.support.command import COMMAND, environment
from tests.support.kyc import EXTRACT, PASSPORT
from tests.support.kyc_provider import Provider, serve
from tests.support.sessions import MARK, DevSession, Trail, trail
from verbs.kyc.screening import URL

ROOT = Path(__file__).parents[2]


@contextmanager
def _dev_with_kyc(folder: Path, found: Trail, url: str) -> Iterator[DevSession]:
    """`verbworker dev` as a new user runs it, with the KYC case of the example."""
    shutil.copytree(ROOT / "verbs", folder / "verbs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "processes" / "kyc-open-case", folder / "processes" / "kyc-open-case")
    (folder / "pyproject.toml").write_text('[tool.verblint]\nverbs = "verbs"\nengine = "8.6"\n')
    data, log = found.folder / "data", folder / "dev.log"
    words = ["--app", "verbs:registry", "--processes", "processes", "--sql", "verbs/kyc/kyc.sql", "--data", str(data)]
    variables = environment(**{MARK: found.mark, URL: url})
    child = spawn([COMMAND, "dev", *words], log=log, environment=variables, directory=folder)
    try:
        yield DevSession(child, log, folder, data)
    finally:
        child.end(signal.SIGINT, timeout=60)


@dataclass(frozen=True, slots=True)
class Living:
    """A session of `verbworker dev`, where its console is, and who screens names for it."""

    session: DevSession
    home: str
    provider: Provider

    def start(self, entity: str) -> str:
        """Open a case from another terminal."""
        asked = f'(kyc.open-case :entity "{entity}" :case-type "periodic-review")'
        said = self.session.run("start", asked, "--app", "verbs:registry", "--by", "ann", "--json")
        return str(json.loads(said.out)["entry_id"])

    def send_papers(self, entry_id: str) -> None:
        """The customer's papers, from another terminal."""
        papers = json.dumps({"documents": [PASSPORT, EXTRACT]})
        self.session.run("message", "send", "kyc.documents-received", "--key", entry_id, "--payload", papers)


@contextmanager
def opened_living(folder: Path) -> Iterator[Living]:
    """A session until the end of the block, in a folder of its own."""
    with trail() as found, serve() as provider, _dev_with_kyc(folder, found, provider.url) as session:
        session.until("console: http://")
        yield Living(session, re.findall(r"console: (http://\S+)", session.said)[0], provider)
