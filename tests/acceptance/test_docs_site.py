"""The site builds strictly, no link or anchor is dead, and no page loads anything from another place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate.check_site import problems

ROOT = Path(__file__).parents[2]


def test_the_site_builds_strictly_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(problems(tmp_path / "site")) == []
    assert (tmp_path / "site" / "schemas" / "verbs.schema.json").exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<a href="nowhere.html">x</a>', "leads nowhere"),
        ('<a href="page.html#missing">x</a>', "does not exist"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //example.org/x.css"),
        ('<img src="/picture.png">', "begins at the root"),
    ],
)
def test_a_page_that_is_wrong_is_found(tmp_path: Path, body: str, words: str) -> None:
    (tmp_path / "page.html").write_text(f"<html><body>{body}</body></html>")

    (found,) = problems(tmp_path)

    assert words in found
