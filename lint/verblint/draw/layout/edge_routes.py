"""Choose the way of every line through the grid of a made-up layout: along free rows, or between rows and columns.

A channel is the space between two columns or two rows; channel 0 is before the first one. No node is in a channel, so a
line through channels never crosses a node. Lines in one channel get tracks of their own.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from verblint.draw.layout.branch_rows import Spans


@dataclass(eq=False, slots=True)
class Track:
    """A straight part of a line in a channel, from one place to another across it."""

    is_upright: bool
    channel: int
    low: int
    high: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Middle:
    """The middle of a column or row."""

    index: int


@dataclass(slots=True)
class Route:
    """The side where a line leaves, the x or y of each of its parts in turn, and the side where it enters."""

    leave: str
    turns: list[Track | Middle] = field(default_factory=list)
    enter: str = "left"


class EdgeRouter:
    """The ways through one grid."""

    def __init__(self, places: Sequence[tuple[int, int]], corners: Collection[int], crowded: Collection[int]) -> None:
        """Take the column and row of each node; `corners` are gateways, `crowded` have boundary events below."""
        self._places = places
        self._corners = corners
        self._crowded = crowded
        self._by_row: dict[int, list[int]] = {}
        self._by_column: dict[int, list[int]] = {}
        for column, row in sorted(places):
            self._by_row.setdefault(row, []).append(column)
            self._by_column.setdefault(column, []).append(row)
        for columns in self._by_row.values():
            columns.sort()
        self._lines = Spans()
        self._connected: set[tuple[int, int]] = set()
        self.tracks: list[Track] = []

    def route(self, source: int, target: int, *, is_lower: bool) -> Route:
        """Return the way from a node to another; `is_lower` means from a boundary event."""
        if is_lower:
            return self._from_below(source, target)
        column, other = self._places[source][0], self._places[target][0]
        if source == target:
            return self._loop(source)
        if other <= column:
            return self._backward(source, target)
        if (source, target) in self._connected:
            return self._beside(source, target)
        self._connected.add((source, target))
        return self._forward(source, target)

    def number_tracks(self) -> dict[tuple[bool, int], int]:
        """Give the tracks of each channel numbers without overlap, and return how many each channel has."""
        counts: dict[tuple[bool, int], int] = {}
        channels: dict[tuple[bool, int], list[Track]] = {}
        for track in self.tracks:
            channels.setdefault((track.is_upright, track.channel), []).append(track)
        for key, tracks in channels.items():
            used: list[tuple[int, int]] = []
            free: list[int] = []
            for track in sorted(tracks, key=lambda track: (track.low, track.high)):
                while used and used[0][0] < track.low:
                    heappush(free, heappop(used)[1])
                track.number = heappop(free) if free else len(used)
                heappush(used, (track.high, track.number))
                counts[key] = max(counts.get(key, 0), track.number + 1)
        return counts

    def _is_row_free(self, row: int, after: int, before: int, owner: int) -> bool:
        """Return whether a row has neither nodes nor other lines between two columns, both excluded."""
        if before - after < 2:
            return True
        columns = self._by_row.get(row, [])
        at = bisect_left(columns, after + 1)
        return (at == len(columns) or columns[at] >= before) and self._lines.is_free(row, after + 1, before - 1, owner)

    def _is_column_free(self, column: int, row: int, other: int) -> bool:
        """Return whether a column has no node from a row, excluded, to another, included."""
        low, high = (row + 1, other) if row < other else (other, row - 1)
        rows = self._by_column.get(column, [])
        at = bisect_left(rows, low)
        return at == len(rows) or rows[at] > high

    def _take_row(self, row: int, after: int, before: int, owner: int) -> None:
        if before - after >= 2:
            self._lines.take(row, after + 1, before - 1, owner)

    def _upright(self, channel: int, low: int, high: int) -> Track:
        return self._track(True, channel, low, high)

    def _level(self, channel: int, low: int, high: int) -> Track:
        return self._track(False, channel, low, high)

    def _track(self, is_upright: bool, channel: int, low: int, high: int) -> Track:
        track = Track(is_upright, channel, min(low, high), max(low, high))
        self.tracks.append(track)
        return track

    def _forward(self, source: int, target: int) -> Route:
        (column, row), (other, below) = self._places[source], self._places[target]
        if row == below:
            if self._is_row_free(row, column, other, target):
                self._take_row(row, column, other, target)
                return Route("right")
            return self._around(source, target)
        if source in self._corners and self._is_column_free(column, row, below):
            side = "bottom" if below > row else "top"
            if self._is_row_free(below, column, other, target) and (side == "top" or source not in self._crowded):
                self._take_row(below, column, other, target)
                return Route(side, [Middle(below)])
        side = "bottom" if below < row else "top"
        is_open = self._is_column_free(other, below, row) and (side == "top" or target not in self._crowded)
        if target in self._corners and is_open and self._is_row_free(row, column, other, target):
            self._take_row(row, column, other, target)
            return Route("right", [Middle(other)], side)
        if self._is_row_free(below, column, other, target):
            self._take_row(below, column, other, target)
            return Route("right", [self._upright(column + 1, 2 * row + 1, 2 * below + 1), Middle(below)])
        if self._is_row_free(row, column, other, target):
            self._take_row(row, column, other, target)
            return Route("right", [self._upright(other, 2 * row + 1, 2 * below + 1), Middle(below)])
        return self._through_channels(source, target, below if row < below else below + 1)

    def _around(self, source: int, target: int) -> Route:
        """Lead a line below the nodes between two nodes of one row."""
        (column, row), (other, _) = self._places[source], self._places[target]
        if source in self._crowded or target in self._crowded:
            return self._through_channels(source, target, row + 1)
        return Route("bottom", [self._level(row + 1, 2 * column + 1, 2 * other + 1), Middle(other)], "bottom")

    def _beside(self, source: int, target: int) -> Route:
        """Lead one more line between the same nodes, which has tracks of its own."""
        row, below = self._places[source][1], self._places[target][1]
        return self._around(source, target) if row == below else self._through_channels(source, target, below + 1)

    def _backward(self, source: int, target: int) -> Route:
        """Lead a line above all nodes between, straight up and down where the columns are free."""
        (column, row), (other, above) = self._places[source], self._places[target]
        top = min(row, above)
        is_free = (row == top or self._is_column_free(column, row, top)) and (
            above == top or self._is_column_free(other, above, top)
        )
        if is_free and column != other:
            return Route("top", [self._level(top, 2 * column + 1, 2 * other + 1), Middle(other)], "top")
        return self._through_channels(source, target, top)

    def _through_channels(self, source: int, target: int, channel: int) -> Route:
        (column, row), (other, below) = self._places[source], self._places[target]
        return Route(
            "right",
            [
                self._upright(column + 1, 2 * row + 1, 2 * channel),
                self._level(channel, 2 * column + 2, 2 * other),
                self._upright(other, 2 * channel, 2 * below + 1),
                Middle(below),
            ],
        )

    def _from_below(self, source: int, target: int) -> Route:
        (column, row), (other, below) = self._places[source], self._places[target]
        is_open = below > row and other > column and self._is_column_free(column, row, below)
        if is_open and self._is_row_free(below, column, other, target):
            self._take_row(below, column, other, target)
            return Route("bottom", [Middle(below)])
        return Route(
            "bottom",
            [
                self._level(row + 1, 2 * column + 1, 2 * other),
                self._upright(other, 2 * row + 2, 2 * below + 1),
                Middle(below),
            ],
        )

    def _loop(self, node: int) -> Route:
        column, row = self._places[node]
        right = self._upright(column + 1, 2 * row, 2 * row + 1)
        return Route("right", [right, self._level(row, 2 * column + 1, 2 * column + 2), Middle(column)], "top")
