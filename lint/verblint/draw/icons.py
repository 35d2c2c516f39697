"""The signs inside of shapes, drawn for this project: path data around a centre, each part with its classes."""

from math import cos, pi, sin

Icon = tuple[tuple[str, str], ...]
"""Parts of a sign: classes of the stylesheet, and path data."""

_OUTLINE, _SOLID = "icon", "icon solid"
_LETTER = "M-9.5-6.5H9.5V6.5H-9.5Z"
_FLAP = "M-9.5-6.5L0 1L9.5-6.5"
_PAPER = "M-6.5-8.5H6.5V8.5H-6.5Z"
_RULES = "M-4.2-5H4.2M-4.2-1.7H4.2M-4.2 1.7H4.2M-4.2 5H4.2"


def _circle(radius: float, x: float = 0, y: float = 0) -> str:
    arc = f"a{radius:g} {radius:g} 0 1 1"
    return f"M{x - radius:g} {y:g}{arc} {2 * radius:g} 0{arc} {-2 * radius:g} 0Z"


def _polygon(radius: float, corners: int) -> str:
    angles = [2 * pi * corner / corners - pi / 2 for corner in range(corners)]
    return "M" + "L".join(f"{radius * cos(angle):.2f} {radius * sin(angle):.2f}" for angle in angles) + "Z"


def _clock() -> str:
    angles = [pi * hour / 6 for hour in range(12)]
    ticks = "".join(
        f"M{8 * cos(angle):.2f} {8 * sin(angle):.2f}L{10 * cos(angle):.2f} {10 * sin(angle):.2f}" for angle in angles
    )
    return f"{_circle(10)}{ticks}M2.2-6.6L0 0H5"


def _gear(x: float, y: float, radius: float) -> str:
    """Return a wheel with eight teeth and a hole."""
    corners = []
    for tooth in range(8):
        for turn, reach in ((-0.16, 1.0), (0.16, 1.0), (0.24, 0.74), (0.55, 0.74)):
            angle = 2 * pi * (tooth + turn) / 8 + pi / 8
            corners.append(f"{x + radius * reach * cos(angle):.2f} {y + radius * reach * sin(angle):.2f}")
    return "M" + "L".join(corners) + "Z" + _circle(radius * 0.36, x, y)


_EVENT_PATHS = {
    "error": "M-9 9L-4.6-7.4L2.2 1.2L8.8-9.4L4.4 7.2L-2.6-1.4Z",
    "escalation": "M0-9.5L7 8.5L0 1.5L-7 8.5Z",
    "signal": "M0-9L8.8 6.5H-8.8Z",
    "link": "M-9.5-3.6H2V-7.5L9.5 0L2 7.5V3.6H-9.5Z",
    "cancel": "M-5.6-8.6L0-3L5.6-8.6L8.6-5.6L3 0L8.6 5.6L5.6 8.6L0 3L-5.6 8.6L-8.6 5.6L-3 0L-8.6-5.6Z",
    "compensate": "M-.5-6.5V6.5L-9.5 0ZM8.5-6.5V6.5L-.5 0Z",
    "multiple": _polygon(9.5, 5),
    "parallelMultiple": "M-2.4-9H2.4V-2.4H9V2.4H2.4V9H-2.4V2.4H-9V-2.4H-2.4Z",
}


def event_icon(symbol: str, *, is_throwing: bool) -> Icon:
    """Return the sign of an event, for a circle of radius 18; throwing events have solid ones."""
    if symbol == "message":
        return ((_SOLID, _LETTER), ("icon solid notch", _FLAP)) if is_throwing else ((_OUTLINE, _LETTER + _FLAP),)
    if symbol == "timer":
        return ((_OUTLINE, _clock()),)
    if symbol == "conditional":
        return ((_OUTLINE, _PAPER + _RULES),)
    if symbol == "terminate":
        return ((_SOLID, _circle(9.5)),)
    if symbol in _EVENT_PATHS:
        return ((_SOLID if is_throwing else _OUTLINE, _EVENT_PATHS[symbol]),)
    return ()


_PENTAGON_IN_RING = ((_OUTLINE, _circle(13.5) + _circle(10.8)), (_OUTLINE, _polygon(6.8, 5)))

GATEWAY_ICONS: dict[str, Icon] = {
    "exclusiveGateway": (("icon bold", "M-7.5-10L7.5 10M7.5-10L-7.5 10"),),
    "parallelGateway": (("icon bold", "M0-13.5V13.5M-13.5 0H13.5"),),
    "inclusiveGateway": (("icon bold ring", _circle(11.5)),),
    "complexGateway": (("icon bold", "M0-13V13M-13 0H13M-9-9L9 9M9-9L-9 9"),),
    "eventBasedGateway": _PENTAGON_IN_RING,
    "start": ((_OUTLINE, _circle(13)), (_OUTLINE, _polygon(8, 5))),
    "parallel": ((_OUTLINE, _circle(13)), (_OUTLINE, _EVENT_PATHS["parallelMultiple"])),
}
"""Signs of gateways, for a diamond of 50 by 50; the last two are event-based gateways that start a process."""

TASK_ICONS: dict[str, Icon] = {
    "userTask": (
        ("icon paper", "M-8 8.5V5.2C-8 2.4-5.6 1-3 .4C-1.4 2.2 1.4 2.2 3 .4C5.6 1 8 2.4 8 5.2V8.5Z"),
        ("icon paper", _circle(4.2, 0, -4.2)),
        (_OUTLINE, "M-4.4 5.5V8.5M4.4 5.5V8.5M-4-5.2C-2-3.6 2-3.6 4-5.6"),
    ),
    "serviceTask": (("icon paper", _gear(-2, -1.8, 7.6)), ("icon paper", _gear(4.2, 4.4, 5.6))),
    "sendTask": ((_SOLID, "M-9-6H9V6H-9Z"), ("icon solid notch", "M-9-6L0 1L9-6")),
    "receiveTask": ((_OUTLINE, "M-9-6H9V6H-9ZM-9-6L0 1L9-6"),),
    "manualTask": (
        (
            _OUTLINE,
            "M-8.5 6.5V-.6C-8.5-1.8-7.8-2.6-7-3.2L-2.4-6.6C-1.2-7.4.3-6 -.6-4.8L-2.2-2.8H7.2C8.8-2.8 8.8-.4 7.2-.4"
            "C8.9-.4 8.9 2 7.2 2C8.2 2 8.2 4.3 6.4 4.3C7.2 4.3 7 6.6 5.2 6.6H-6.6C-7.5 6.6-8.5 6.5-8.5 6.5Z"
            "M1.5-.4H7.2M1.5 2H7.2M1.5 4.3H6.4",
        ),
    ),
    "scriptTask": (
        (
            _OUTLINE,
            "M-4.5-8.5H7C3.8-5.8 3.8-3 5.6-.4C7.6 2.6 7.2 5.8 4.4 8.5H-7.4C-4.4 5.8-4.2 2.8-6.2-.2"
            "C-8-3-7.6-5.9-4.5-8.5Z"
            "M-4-5.2H1.8M-4.2-1.9H1.8M-2.8 1.5H3.2M-2.6 4.9H3",
        ),
    ),
    "businessRuleTask": ((_SOLID, "M-9-7H9V-2.8H-9Z"), (_OUTLINE, "M-9-7H9V7H-9ZM-9 2.1H9M-3.4-2.8V7")),
}
"""Signs of tasks, 20 by 20."""

MARKER_ICONS: dict[str, Icon] = {
    "loop": ((_OUTLINE, "M-2.6 5.8A6.3 6.3 0 1 1 2.6 5.8M-6.6 5.9H-2.4V1.7"),),
    "parallel": (("icon bars", "M-4-6V6M0-6V6M4-6V6"),),
    "sequential": (("icon bars", "M-6-4H6M-6 0H6M-6 4H6"),),
    "compensation": ((_OUTLINE, "M-.4-5V5L-7 0ZM6.4-5V5L-.4 0Z"),),
    "ad-hoc": (("icon bars", "M-6.5 2C-4.6-3-2-2.4 0 0C2 2.4 4.6 3 6.5-2"),),
    "collapsed": ((_OUTLINE, "M-7-7H7V7H-7ZM-4 0H4M0-4V4"),),
}
"""Markers at the lower border of activities, 14 by 14."""

DATA_ICONS: dict[str, Icon] = {
    "dataInput": ((_OUTLINE, _EVENT_PATHS["link"]),),
    "dataOutput": ((_SOLID, _EVENT_PATHS["link"]),),
}
COLLECTION = (("icon bars", "M-3.5-5V5M0-5V5M3.5-5V5"),)
"""The sign of data that is a list."""

LETTER: Icon = ((_OUTLINE + " paper", "M-10-7H10V7H-10ZM-10-7L0 1L10-7"),)
"""The message on a message flow."""

SENT_LETTER: Icon = ((_SOLID, "M-10-7H10V7H-10Z"), ("icon solid notch", "M-10-7L0 1L10-7"))
"""The message of a participant who answers."""
