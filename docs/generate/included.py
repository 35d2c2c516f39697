"""Pages that stand in the repository beside what they describe, taken into the documentation with their links."""

import posixpath
import re
from pathlib import Path

from verblint.rule_pages import BEGIN, END

ROOT = Path(__file__).parents[2]
INCLUDED = {
    "how-to/operate.md": "deploy/README.md",
    "how-to/lint.md": "lint/README.md",
    "how-to/http-api.md": "verbworker/api/README.md",
    "how-to/profile.md": "verbworker/profile/verify/README.md",
}
"""Pages of the documentation by the file that they come from."""

_BLOCKS = re.DOTALL | re.MULTILINE
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")


def included_page(target: str) -> str:
    """Return a file of the repository as a page: links to other pages lead there, links to other files are text."""
    source = INCLUDED[target]
    text = (ROOT / source).read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    if begin:
        text = f"{before}[Lint rules](../reference/rules.md) lists every rule with its page.\n{rest.partition(END)[2]}"
    # A block without a language would be guessed at.
    text = re.sub(
        r"^```(\w*)\n(.*?)^```$", lambda block: f"```{block[1] or 'text'}\n{block[2]}```", text, flags=_BLOCKS
    )
    return _LINK.sub(lambda link: _relink(link, source, target), text)


def _relink(link: re.Match[str], source: str, target: str) -> str:
    words, address, anchor = link[1], link[2], link[3] or ""
    if "://" in address:
        return link[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), address))
    pages = {origin: page for page, origin in INCLUDED.items()}
    if file in pages:
        return f"[{words}]({posixpath.relpath(pages[file], posixpath.dirname(target))}{anchor})"
    return words if words == f"`{file}`" else f"{words} (`{file}`)" if file not in words else f"`{file}`"
