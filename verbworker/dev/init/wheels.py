"""The wheels of verbworker itself, packed from the running installation.

No index has verbworker yet. A new project carries the two wheels, so that it installs on any machine.
"""

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable

from verbworker.errors import CannotRun
from verbworker.stores.sql import root

WHEELS = "wheels"
"""The folder of a project that holds them."""

# The distribution and its import package. Both are pure Python, so one wheel fits every machine.
_PACKAGES = {"verbworker": "verbworker", "verbworker-lint": "verblint"}
_TAG = "py3-none-any"
# Written by the installer, or made anew here.
_NOT_PACKED = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json", "WHEEL")
_WHEEL = f"Wheel-Version: 1.0\nGenerator: verbworker init\nRoot-Is-Purelib: true\nTag: {_TAG}\n"
# The same installation gives the same bytes.
_EPOCH = (2020, 2, 2, 0, 0, 0)


def pack_wheels() -> Mapping[str, bytes]:
    """Return the wheel of each package by its path in a project; `CannotRun` if one is not installed."""
    return dict(_pack(name, package) for name, package in _PACKAGES.items())


def _pack(name: str, package: str) -> tuple[str, bytes]:
    try:
        installed = distribution(name)
    except PackageNotFoundError as error:
        raise CannotRun(f"{name} runs without being installed; run: pip install {name}") from error
    stem = f"{name.replace('-', '_')}-{installed.version}"
    inside = {**dict(_package_files(package)), **dict(_metadata_files(installed, f"{stem}.dist-info"))}
    inside[f"{stem}.dist-info/RECORD"] = _record(inside, f"{stem}.dist-info/RECORD")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in inside.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, content)
    return f"{WHEELS}/{stem}-{_TAG}.whl", packed.getvalue()


def _package_files(package: str) -> Iterator[tuple[str, bytes]]:
    yield from _walk(files(package), package)
    if package == "verbworker":
        # In a checkout the SQL is beside the package.
        yield from _walk(root(), f"{package}/_sql")


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        below = f"{path}/{entry.name}"
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _walk(entry, below)
        else:
            yield below, entry.read_bytes()


def _metadata_files(installed: Distribution, folder: str) -> Iterator[tuple[str, bytes]]:
    for path in installed.files or ():
        if path.parts[0] == folder and path.parts[-1] not in _NOT_PACKED:
            yield str(path), path.read_binary()
    yield f"{folder}/WHEEL", _WHEEL.encode()


def _record(inside: Mapping[str, bytes], record: str) -> bytes:
    def line(path: str, content: bytes) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        return f"{path},sha256={digest},{len(content)}\n"

    return ("".join(line(path, content) for path, content in inside.items()) + f"{record},,\n").encode()
