"""bpmn-js, the renderer of Camunda Modeler, from npm by name: what it draws for a model, compared with what we draw."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.cache import cached
from verblint.draw import Picture

PACKAGE = "bpmn-js"
NEAR_PX = 4
"""How far a stroke may be from the other renderer's: icons are our own drawings, and fonts differ."""

_TIMEOUT = 120
_SHOW = """async ([xml, x, y, width, height]) => {
    const viewer = new BpmnJS({ container: '#theirs' });
    await viewer.importXML(xml);
    viewer.get('canvas').viewbox({ x, y, width, height });
}"""
# The share of dark pixels of each picture that have a dark pixel of the other one near them.
_COMPARE = """async ([one, other, near]) => {
    async function ink(data) {
        const image = new Image();
        image.src = 'data:image/png;base64,' + data;
        await image.decode();
        const canvas = new OffscreenCanvas(image.width, image.height), pen = canvas.getContext('2d');
        pen.drawImage(image, 0, 0);
        const { data: bytes, width, height } = pen.getImageData(0, 0, image.width, image.height);
        const dark = new Uint8Array(width * height);
        for (let i = 0; i < dark.length; i++)
            dark[i] = bytes[4 * i] + bytes[4 * i + 1] + bytes[4 * i + 2] < 384 ? 1 : 0;
        const sums = new Uint32Array((width + 1) * (height + 1));
        for (let y = 0; y < height; y++) for (let x = 0, row = 0; x < width; x++) {
            row += dark[y * width + x];
            sums[(y + 1) * (width + 1) + x + 1] = sums[y * (width + 1) + x + 1] + row;
        }
        const has = (x, y) => {
            const l = Math.max(x - near, 0), r = Math.min(x + near + 1, width);
            const t = Math.max(y - near, 0), b = Math.min(y + near + 1, height), w = width + 1;
            return sums[b * w + r] - sums[t * w + r] - sums[b * w + l] + sums[t * w + l] > 0;
        };
        return { dark, width, height, has };
    }
    const [a, b] = [await ink(one), await ink(other)];
    const share = (from, to) => {
        let all = 0, met = 0;
        for (let y = 0; y < from.height; y++) for (let x = 0; x < from.width; x++) if (from.dark[y * from.width + x]) {
            all++; met += to.has(x, y) ? 1 : 0;
        }
        return all ? met / all : 1;
    };
    return [share(a, b), share(b, a)];
}"""


def scripts() -> Path:
    """The folder of the built viewer; without npm the test is skipped with the reason."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here, so there is no bpmn-js to compare with")

    def install(folder: Path) -> None:
        command = [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
        if done.returncode != 0:
            pytest.skip(f"npm could not fetch {PACKAGE} by name: {done.stderr.strip()[:200]}")

    return cached("bpmn-js", install) / "node_modules" / PACKAGE / "dist"


def compare(page: Page, model: bytes, picture: Picture) -> tuple[float, float]:
    """The share of our strokes that bpmn-js has too, and of its strokes that we have."""
    view, folder = picture.view, scripts()
    size = f"width:{view.width}px;height:{view.height}px"
    page.set_viewport_size({"width": int(view.width) + 1, "height": int(view.height) + 1})
    style = "".join((folder / "assets" / name).read_text() for name in ("diagram-js.css", "bpmn-js.css"))
    # The trademark must stay in products; here it would be compared.
    page.set_content(f"<style>{style}.bjs-powered-by{{display:none}}</style><body style='margin:0'>{picture.svg}")
    ours = base64.b64encode(page.screenshot()).decode()
    page.set_content(
        f"<style>{style}.bjs-powered-by{{display:none!important}}</style><body style='margin:0'>"
        f"<div id='theirs' style='{size}'></div>"
    )
    page.add_script_tag(content=(folder / "bpmn-viewer.production.min.js").read_text())
    page.evaluate(_SHOW, [model.decode(), view.x, view.y, view.width, view.height])
    theirs = base64.b64encode(page.screenshot()).decode()
    met, found = page.evaluate(_COMPARE, [ours, theirs, NEAR_PX])
    return float(met), float(found)
