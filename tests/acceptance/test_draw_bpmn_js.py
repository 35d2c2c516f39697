"""Our pictures of thirty models show what bpmn-js shows, stroke for stroke."""

from pathlib import Path

import pytest

from tests.support.bpmn_js import compare, scripts
from tests.support.browser import opened_browser
from tests.support.drawn_models import gallery
from tests.support.model_source import ModelSource
from verblint.draw import draw

ROOT = Path(__file__).parents[2]
FILES = (*sorted(ROOT.glob("processes/*/*.bpmn")), *sorted(ROOT.glob("docs/**/*.bpmn")))
LEAST = 0.92
"""The share of strokes that must be in both pictures.

The rest are icons, which are our own, words that bpmn-js breaks and we do not, crosses in gateways that it leaves out,
and lines of the generated models: their diagrams lead them to the middle of shapes, where we cut them at the border.
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_our_pictures_are_those_of_bpmn_js() -> None:
    scripts()
    models = {str(path.relative_to(ROOT)): path.read_bytes() for path in FILES} | {"gallery": gallery()}
    models |= {f"generated {number}": model for number, model in enumerate(ModelSource(20261118).sized(24))}
    shares = {}
    with opened_browser() as browser:
        page = browser.new_page(color_scheme="light")
        for name, model in models.items():
            shares[name] = compare(page, model, draw(model))

    print(*(f"{name}: {met:.3f} {found:.3f}" for name, (met, found) in shares.items()), sep="\n")
    assert len(shares) == 30
    assert {name: share for name, share in shares.items() if min(share) < LEAST} == {}
