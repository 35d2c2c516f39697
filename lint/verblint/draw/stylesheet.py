"""The colours of a picture: classes and custom properties, for light and dark pages."""

from re import findall, sub

STATES = ("taken", "active", "waiting", "incident", "done")
"""The states an element can be marked with; `heat-1` to `heat-5` are the others."""

HEAT_LEVELS = 5

_LIGHT = """\
--bpmn-page:#ffffff;--bpmn-fill:#ffffff;--bpmn-line:#22242a;--bpmn-text:#22242a;--bpmn-muted:#5b616e;
--bpmn-scope:#f7f8fa;--bpmn-done:#1a7f4b;--bpmn-taken:#1d5fd1;--bpmn-active:#1d5fd1;--bpmn-active-fill:#e3edfd;
--bpmn-waiting:#9a5b00;--bpmn-waiting-fill:#fff3dc;--bpmn-incident:#c0192f;--bpmn-incident-fill:#fde8ea;
--bpmn-heat:#d9480f"""
_LIGHT_VALUES = dict(findall(r"(--[a-z-]+):([^;\n]+)", _LIGHT))
_DARK = """\
--bpmn-page:#16181d;--bpmn-fill:#1f2229;--bpmn-line:#d7dae0;--bpmn-text:#eceef2;--bpmn-muted:#a3a9b5;
--bpmn-scope:#1a1d23;--bpmn-done:#56c991;--bpmn-taken:#7fb0ff;--bpmn-active:#7fb0ff;--bpmn-active-fill:#1d3156;
--bpmn-waiting:#f0b455;--bpmn-waiting-fill:#43330f;--bpmn-incident:#ff8a94;--bpmn-incident-fill:#4f1a22;
--bpmn-heat:#b3481a"""


def _heat(level: int) -> str:
    """Return the rules of a level: a mix with the fill, weaker for subprocesses, which are large."""
    return "".join(
        f".bpmn {selector}.is-heat-{level}>.shape{{fill:#{_mix(share)};"
        f"fill:color-mix(in srgb,var(--bpmn-heat) {share}%,var(--bpmn-fill))}}\n"
        for selector, share in (("", level * 14), (".scope", level * 4))
    )


def _mix(share: int) -> str:
    """Return the light colour of heat with white, for programs that cannot mix."""
    heat = bytes.fromhex(_LIGHT_VALUES["--bpmn-heat"].removeprefix("#"))
    return "".join(f"{round(255 - (255 - part) * share / 100):02x}" for part in heat)


_RULES = f"""\
.bpmn{{{_LIGHT};color:var(--bpmn-line);font-family:Arial,Helvetica,"Liberation Sans",sans-serif}}
@media (prefers-color-scheme:dark){{.bpmn:not([data-theme=light]){{{_DARK}}}}}
.bpmn[data-theme=dark],[data-theme=dark] .bpmn:not([data-theme=light]){{{_DARK}}}
[data-theme=light] .bpmn:not([data-theme=dark]){{{_LIGHT}}}
.bpmn .page{{fill:var(--bpmn-page)}}
.bpmn .shape{{fill:var(--bpmn-fill);stroke:currentColor;stroke-width:2;stroke-linejoin:round}}
.bpmn .inner{{fill:none;stroke:currentColor;stroke-width:1.5}}
.bpmn .thin .shape{{stroke-width:1.5}}
.bpmn .thick>.shape,.bpmn .end-event>.shape{{stroke-width:4}}
.bpmn .participant>.shape,.bpmn .lane>.shape{{stroke-width:1.5}}
.bpmn .participant>.shape{{fill:var(--bpmn-page)}}
.bpmn .lane>.shape,.bpmn .group>.shape,.bpmn .text-annotation>.shape{{fill:none}}
.bpmn .scope>.shape{{fill:var(--bpmn-scope)}}
.bpmn .intermediate>.shape,.bpmn .data>.shape{{stroke-width:1.5}}
.bpmn .dashed>.shape,.bpmn .dashed>.inner{{stroke-dasharray:6 4}}
.bpmn .group>.shape{{stroke-width:1.5;stroke-dasharray:10 6 1 6;stroke-linecap:round}}
.bpmn .event-scope>.shape{{stroke-dasharray:1 5;stroke-linecap:round}}
.bpmn .unknown>.shape{{stroke-dasharray:3 3}}
.bpmn .icon{{fill:none;stroke:currentColor;stroke-width:1.3;stroke-linejoin:round;stroke-linecap:round}}
.bpmn .icon.solid{{fill:currentColor}}
.bpmn .icon.bold{{stroke-width:4.4;stroke-linecap:butt}}
.bpmn .icon.ring{{stroke-width:2.6}}
.bpmn .icon.bars{{stroke-width:2.2;stroke-linecap:butt}}
.bpmn .icon.paper{{fill:var(--bpmn-fill)}}
.bpmn .icon.solid.notch{{stroke:var(--bpmn-fill)}}
.bpmn .flow{{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round}}
.bpmn .tip{{fill:currentColor;stroke:currentColor;stroke-width:1.5;stroke-linejoin:round}}
.bpmn .open-tip{{fill:var(--bpmn-fill);stroke:currentColor;stroke-width:1.2;stroke-linejoin:round}}
.bpmn .line-tip{{fill:none;stroke:currentColor;stroke-width:1.5;stroke-linecap:round}}
.bpmn .message-flow>.flow{{stroke-dasharray:10 6;stroke-linecap:round}}
.bpmn .association>.flow{{stroke-dasharray:.5 5;stroke-width:2;stroke-linecap:round}}
.bpmn text{{fill:var(--bpmn-text);font-size:12px;text-anchor:middle}}
.bpmn text.small{{font-size:11px}}
.bpmn text.left{{text-anchor:start}}
.bpmn text.halo{{paint-order:stroke;stroke:var(--bpmn-page);stroke-width:3px;stroke-linejoin:round}}
.bpmn text.heading{{font-size:14px;font-weight:bold;text-anchor:start}}
.bpmn text.sign{{font-size:11px;font-weight:bold;fill:var(--bpmn-page)}}
.bpmn .pill{{fill:var(--bpmn-page);stroke:currentColor;stroke-width:1.2}}
.bpmn text.count{{font-size:10px;font-weight:bold}}
.bpmn .badge{{stroke:var(--bpmn-page);stroke-width:1.5}}
{"".join(map(_heat, range(1, HEAT_LEVELS + 1)))}.bpmn .is-taken{{color:var(--bpmn-taken)}}
.bpmn .is-taken>.flow{{stroke-width:2.8}}
.bpmn .is-done{{color:var(--bpmn-done)}}
.bpmn .is-active{{color:var(--bpmn-active)}}
.bpmn .is-active>.shape{{stroke-width:3}}
.bpmn .is-active:not(.scope,[class*=is-heat-])>.shape{{fill:var(--bpmn-active-fill)}}
.bpmn .is-waiting{{color:var(--bpmn-waiting)}}
.bpmn .is-waiting>.shape{{stroke-width:3}}
.bpmn .is-waiting:not(.scope,[class*=is-heat-])>.shape{{fill:var(--bpmn-waiting-fill)}}
.bpmn .is-incident{{color:var(--bpmn-incident)}}
.bpmn .is-incident>.shape{{stroke-width:3}}
.bpmn .is-incident:not(.scope,[class*=is-heat-])>.shape{{fill:var(--bpmn-incident-fill)}}
.bpmn .badge{{color:inherit;fill:currentColor}}
.bpmn [tabindex]:focus{{outline:3px solid var(--bpmn-active);outline-offset:4px}}
"""

STYLESHEET = sub(r"([a-z-]+):var\((--[a-z-]+)\)", lambda use: f"{use[1]}:{_LIGHT_VALUES[use[2]]};{use[0]}", _RULES)
"""The rules. Programs that know no custom properties take the light colour before each."""
