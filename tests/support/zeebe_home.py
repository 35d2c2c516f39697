"""The Zeebe 8.6.0 distribution in the user's cache: fetched, checked, unpacked, and trained to start fast."""

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.support.cache import cached
from tests.support.errors import Broken
from tests.support.java import Java
from tests.support.maven import copy_artifact

VERSION = "8.6.0"
SHA256 = "5c699e86a6c9d290dd7b1f0b2ea648fb57fd1dacf1cab22c874219e58827ea45"
_COORDINATES = f"io.camunda:camunda-zeebe:{VERSION}:tar.gz"


def zeebe_home() -> Path:
    """Where the distribution is unpacked; the first call on a machine fetches it through Maven."""
    return cached(f"zeebe-{VERSION}", _install)


def start_cache(java: Java, flags: list[str], train: Callable[[Path], None]) -> Path | None:
    """The start-up cache for this Java and these flags, made by `train` once; None where Java has no such thing."""
    if java.major < 25:
        return None
    key = hashlib.sha256(" ".join([str(java.home), java.version, *flags]).encode()).hexdigest()[:12]
    name = f"zeebe-{VERSION}-java-{java.version}-{key}"
    kept = cached(name, lambda directory: train(directory / "start.aot")) / "start.aot"
    return kept if kept.exists() else None


def class_path(home: Path) -> str:
    """Every jar by name: the start-up cache holds for one exact order and for no directories."""
    return ":".join(f"lib/{jar.name}" for jar in sorted((home / "lib").glob("*.jar")))


def _install(directory: Path) -> None:
    download = directory / "download"
    copy_artifact(_COORDINATES, download)
    archive = download / f"camunda-zeebe-{VERSION}.tar.gz"
    with archive.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != SHA256:
        raise Broken(f"{_COORDINATES} has SHA-256 {found}, not the pinned {SHA256}")
    _unpack(archive, directory)
    archive.unlink()
    download.rmdir()


def _unpack(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as members:
        for member in members:
            _, _, member.name = member.name.partition("/")
            if member.name:
                members.extract(member, directory, filter="data")
