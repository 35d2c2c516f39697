"""Check a built site: every link and anchor leads somewhere, and no page loads anything from another place.

`python -m docs.generate.check_site build/site` prints what is wrong, one line each, and exits with 1.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}


class _Page(HTMLParser):
    """The ids of a page, and what it refers to."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: set[str] = set()
        self.references: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the ids and addresses of an element."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src", "data") and value and (tag == "a" or (tag, name) in _LOADED):
                self.references.append((tag, name, value))


@cache
def _read(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def problems(site: Path) -> Iterator[str]:
    """Yield what is wrong with a site, one sentence each."""
    for file in sorted(site.rglob("*.html")):
        for tag, name, address in _read(file).references:
            if (problem := _problem(site, file, tag, name, address)) is not None:
                yield f"{file.relative_to(site)}: {problem}"
    for file in sorted(site.rglob("*.css")):
        for address in re.findall(r"url\(\s*[\"']?([^)\"']+)", file.read_text(encoding="utf-8")):
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
                yield f"{file.relative_to(site)}: loads {address}"


def _problem(site: Path, file: Path, tag: str, name: str, address: str) -> str | None:
    parts = urlsplit(address)
    if parts.scheme in ("mailto", "data", "javascript"):
        return None
    if parts.scheme or parts.netloc:
        return f"loads {address}" if (tag, name) in _LOADED else None
    target = file if not parts.path else (file.parent / unquote(parts.path)).resolve()
    if parts.path.startswith("/"):
        # The page of errors may be shown at any address, so it alone begins at the root.
        if file.name != "404.html":
            return f"the link {address} begins at the root"
        target = site / unquote(parts.path).lstrip("/")
    if target.is_dir():
        target = target / "index.html"
    if not target.exists():
        return f"the link {address} leads nowhere"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _read(target).ids:
        return f"the anchor of {address} does not exist"
    return None


def main() -> int:
    """Print every problem of the site named on the command line."""
    found = list(problems(Path(sys.argv[1]).resolve()))
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
