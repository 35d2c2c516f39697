"""The console's colours: every text on every ground it stands on has the contrast that WCAG AA asks for."""

import re
from importlib.resources import files
from itertools import chain

import pytest

CSS = (files("verbworker.console") / "static" / "console.css").read_text()
DARK = CSS.index("prefers-color-scheme: dark")
STATUSES = ("executing", "parked", "completed", "failed", "cancelled")
TEXTS = [
    *(("text", ground) for ground in ("page", "card")),
    *(("quiet", ground) for ground in ("page", "card")),
    *(("link", ground) for ground in ("page", "card")),
    *((status, f"on-{status}") for status in STATUSES),
    ("failed", "page"),
    ("failed", "card"),
    ("on-action", "action"),
    ("on-danger", "danger"),
]
SHAPES = [("line", "page"), ("line", "card"), ("action", "page"), ("action", "card"), ("link", "page")]


def colours(scheme: str) -> dict[str, str]:
    text = CSS[:DARK] if scheme == "light" else CSS[DARK : CSS.index("box-sizing")]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", text))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_of_black_and_white_is_what_the_standard_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(scheme: str) -> None:
    known = colours(scheme)

    faint = {pair: found for pair in TEXTS if (found := round(contrast(*(known[name] for name in pair)), 2)) < 4.5}
    assert faint == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_field_and_focus_can_be_seen(scheme: str) -> None:
    known = colours(scheme)

    faint = {pair: found for pair in SHAPES if (found := round(contrast(*(known[name] for name in pair)), 2)) < 3}
    assert faint == {}


def test_every_colour_has_a_name_in_both_schemes_and_is_checked() -> None:
    checked = set(chain.from_iterable((*TEXTS, *SHAPES)))

    assert set(colours("light")) == set(colours("dark")) == checked
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b", CSS[CSS.index("box-sizing") :]) == []
