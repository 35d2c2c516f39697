"""Helm and a strict reader of manifests, built once by Go and kept in the user's cache."""

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

from tests.support.cache import cached
from tests.support.errors import Unavailable

VERSION = "3.18.6"
_SOURCE = Path(__file__).parent / "go" / "strict_manifests"
_TIMEOUT = 1500


def find_helm() -> Path:
    """The helm command; `Unavailable` where Go cannot build it."""
    module = f"helm.sh/helm/v3/cmd/helm@v{VERSION}"
    return cached(f"helm-{VERSION}", lambda folder: _go("install", module, GOBIN=str(folder))) / "helm"


def find_strict_reader() -> Path:
    """The command that decodes manifests strictly into Kubernetes' own types."""
    text = b"".join((_SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))

    def build(folder: Path) -> None:
        _go("build", "-o", str(folder / "strict_manifests"), ".", cwd=_SOURCE)

    return cached(f"strict-manifests-{sha256(text).hexdigest()[:12]}", build) / "strict_manifests"


def _go(*words: str, cwd: Path | None = None, **settings: str) -> None:
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no Go: install it, which builds helm")
    try:
        done = subprocess.run(
            [go, *words],
            cwd=cwd or Path("/"),
            env={**os.environ, "GOFLAGS": "-buildvcs=false", **settings},
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"Go could not build {words[-1]} in {_TIMEOUT} s") from error
    if done.returncode:
        raise Unavailable(f"Go could not build {words[-1]}: {done.stderr.strip().splitlines()[-1:]}")
