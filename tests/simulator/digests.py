"""Which SQL each statement of the simulator was written for: `python -m tests.simulator.digests` writes it down anew.

When a query changes, its double may be wrong, and the simulator would run another product. So a test compares.
"""

import re
from hashlib import sha256
from pathlib import Path

from tests.simulator import statements as statements
from tests.simulator.store import STATEMENTS
from verbworker.stores.sql import migrations, queries

FILE = Path(__file__).with_name("digests.txt")
_COMMENT = re.compile(r"--[^\n]*")


def current() -> dict[str, str]:
    """What each query that has a double is now, and each migration, whose triggers have doubles too."""
    found = {f"migration {name}": _digest(text) for name, text in migrations()}
    for store, name in STATEMENTS:
        if store != "effect":
            found[f"{store}.{name}"] = _digest(queries(store).get(name, ""))
    return dict(sorted(found.items()))


def known() -> dict[str, str]:
    """What the doubles were written for."""
    lines = FILE.read_text().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if line)


def _digest(text: str) -> str:
    return sha256(" ".join(_COMMENT.sub("", text).split()).encode()).hexdigest()[:12]


if __name__ == "__main__":
    FILE.write_text("".join(f"{name} {digest}\n" for name, digest in current().items()))
