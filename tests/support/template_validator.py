"""Camunda Modeler's own validator of element templates, from npm by name, kept in the cache folder."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.cache import cached
from tests.support.errors import Broken

PACKAGE = "@bpmn-io/element-templates-validator"
_TIMEOUT = 120
_SCRIPT = """
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const found = createRequire(process.argv[1] + "/x.js").resolve(process.argv[2]);
const { validateAllZeebe, getZeebeSchemaVersion } = await import(pathToFileURL(found));
let text = "";
for await (const part of process.stdin) text += part;
const { valid, results } = validateAllZeebe(JSON.parse(text));
const faults = results.filter((r) => !r.valid).map((r) => ({
  id: r.object.id, errors: r.errors.map((e) => `${e.instancePath ?? ""} ${e.message}`) }));
console.log(JSON.stringify({ valid, faults, schema: getZeebeSchemaVersion() }));
"""


def judge(templates: list[dict[str, Any]]) -> dict[str, Any]:
    """What the modeler says of templates: whether all are valid, the faults of each, and its schema's version."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node and npm here, so Camunda Modeler's validator cannot be asked; install both")

    def install(folder: Path) -> None:
        command = [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
        if done.returncode != 0:
            pytest.skip(f"npm could not fetch {PACKAGE} by name: {done.stderr.strip()[:200]}")

    home = cached("element-templates-validator", install)
    done = subprocess.run(
        [node, "--input-type=module", "-e", _SCRIPT, str(home), PACKAGE],
        input=json.dumps(templates),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
    )
    if done.returncode != 0:
        raise Broken(f"the validator did not run: {done.stderr.strip()[:500]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told
