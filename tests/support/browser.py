"""A real browser: Debian's chromium, driven by Playwright, without a screen and without talking to anybody else."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from tests.support.cache import locked
from tests.support.children import fresh_directory, remove

_NAMES = ("chromium", "chromium-browser")
TIMEOUT_MS = 60_000
"""How long a page may take to show something, on a machine that has more to do."""

_INSTALL_TIMEOUT_S = 600
_QUIET = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
)


def find_chromium() -> str:
    """Where chromium is, installed first where that is possible; without it the test is skipped with the reason."""
    found = _found()
    if found is None:
        found = _install()
    return found


def _found() -> str | None:
    return next((place for name in _NAMES if (place := shutil.which(name))), None)


def _install() -> str:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return _give_up("there is no chromium, and only root on Debian can have it installed here")
    # Several test processes want it at the same time; one installs and the others wait.
    with locked("chromium"):
        if (place := _found()) is not None:
            return place
        done = _apt("install", "-y", "--no-install-recommends", "chromium")
        if done.returncode != 0:
            # A machine that never asked what there is finds nothing.
            _apt("update")
            done = _apt("install", "-y", "--no-install-recommends", "chromium")
    place = _found()
    if place is None:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        return _give_up(f"chromium could not be installed: {' '.join(last)}")
    return place


def _apt(*words: str) -> subprocess.CompletedProcess[str]:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        ["apt-get", "-o", f"DPkg::Lock::Timeout={_INSTALL_TIMEOUT_S // 2}", *words],
        env=quiet,
        capture_output=True,
        text=True,
        timeout=_INSTALL_TIMEOUT_S,
        check=False,
    )


def _give_up(reason: str) -> str:
    # Not a failure in CI either: unlike the engines, a browser is not everywhere to be had by name.
    pytest.skip(reason)


@contextmanager
def _driver() -> Iterator[Playwright]:
    """Playwright's driver with a temporary directory of its own, where profiles go even if we are killed."""
    # On disk: a browser that avoids /dev/shm because it may be small must not be led there.
    directory = fresh_directory("browser", in_memory=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(directory))
        playwright = sync_playwright().start()
    try:
        yield playwright
    finally:
        playwright.stop()
        remove(directory)


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """A browser until the end of the block. Once it is installed, that it does not start is a failure."""
    place = find_chromium()
    expect.set_options(timeout=TIMEOUT_MS)
    with _driver() as playwright:
        browser = playwright.chromium.launch(executable_path=place, headless=True, args=list(_QUIET))
        try:
            yield browser
        finally:
            browser.close()
