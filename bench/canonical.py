"""Canonical bytes and hash of a payload: our fast path against rfc8785 alone, in interleaved runs.

python bench/canonical.py [--runs N]
"""

import argparse
import hashlib
import platform
import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime

import orjson
import rfc8785

from verbworker.payload.canonical import canonical
from verbworker.payload.envelope import pack, unpack
from verbworker.payload.signature import digest

KIB = 1024
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def payload(size: int, *, floats: bool = False) -> dict[str, object]:
    """A case file of about `size` bytes: texts with accents and escapes, counts, facts, gaps, long keys."""
    chance = random.Random(8785)
    documents: list[dict[str, object]] = []
    case: dict[str, object] = {"case": "c-4711", "entity": "Müller & Söhne GmbH", "documents": documents}
    while len(orjson.dumps(case)) < size:
        number = len(documents)
        document: dict[str, object] = {
            "id": f"doc-{number:05d}",
            "title": f"Passport of director {number}",
            "status": chance.choice(["requested", "received", "approved"]),
            "pages": chance.randrange(50),
            "original": chance.random() < 0.5,
            "note": None if chance.random() < 0.5 else 'kept "as is"\nsee C:\\scans',
            "received_at": "2026-01-02T03:04:05.678901Z",
            "issuer": {"country": "DE", "verified": True, "expires": 2031},
            "tags": ["kyc", "identity", str(number)],
            "job_key": 2251799813685249 + number,
        }
        if floats:
            document["score"] = chance.random()
        documents.append(document)
    return case


def ours(value: object) -> str:
    """Canonicalise and hash with verbworker."""
    return digest(canonical(value))


def reference(value: object) -> str:
    """Canonicalise with rfc8785 and hash."""
    return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()  # type: ignore[arg-type]  # its JSON type is invariant


def job(content: bytes) -> bytes:
    """What every job does with its payload: read it, take a step, write it."""
    payload = unpack(content, budget=128 * KIB)
    return payload.with_step(dict(payload.data), verb="kyc.screen", at=NOON, outcome="ok").to_bytes(budget=128 * KIB)


def medians(runs: int, *subjects: Callable[[], object]) -> list[float]:
    """The median time of each subject in microseconds; the subjects take turns."""
    times: list[list[float]] = [[] for _ in subjects]
    for _ in range(runs):
        for subject, spent in zip(subjects, times, strict=True):
            begin = time.perf_counter()
            subject()
            spent.append((time.perf_counter() - begin) * 1e6)
    return [statistics.median(spent) for spent in times]


def main() -> None:
    """Print one line per payload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=41)
    runs = parser.parse_args().runs
    print(f"Python {platform.python_version()}, orjson {orjson.__version__}, medians of {runs} interleaved runs")
    print(f"{'payload':<24}{'bytes':>8}{'rfc8785 us':>12}{'ours us':>10}{'ratio':>8}{'job us':>10}")
    for size in (2 * KIB, 64 * KIB):
        for floats in (False, True):
            value = payload(size, floats=floats)
            content = pack("kyc.open-case/v1", value, by="kyc.open-case", at=NOON).to_bytes(budget=128 * KIB)
            assert ours(value) == reference(value)
            slow, fast, read = medians(
                runs,
                lambda value=value: reference(value),  # type: ignore[misc]  # bound now, not when called
                lambda value=value: ours(value),  # type: ignore[misc]
                lambda content=content: job(content),  # type: ignore[misc]
            )
            name = f"{size // KIB} KiB, {'a float each' if floats else 'no float'}"
            print(f"{name:<24}{len(content):>8}{slow:>12.0f}{fast:>10.0f}{slow / fast:>7.1f}x{read:>10.0f}")


if __name__ == "__main__":
    main()
