"""Painting of the grid: cards, cells and tiles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen, QPixmap

from torchdeck.plan.preview.memory_bars import VERDICT_SIGNS
from torchdeck.plan.preview.preview import percent
from torchdeck.quantities import size
from torchdeck.shown_text import shown
from torchdeck_app.launch.preview.headline import VERDICT_COLOURS
from torchdeck_app.launch.preview.placement.grid_layout import Box, Detail, Layout, Spot
from torchdeck_app.launch.preview.placement.grid_markers import (
    INSET,
    STRIPE,
    GroupLook,
    Markers,
    MarkerShape,
    group_look,
    group_words,
    period_of,
    pieces,
)
from torchdeck_app.launch.preview.rank_grid_model import (
    ModelNode,
    Need,
    RankGridModel,
    Slot,
    of_capacity,
)
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.palette import ColourName, Palette

BAR_COLOURS: Mapping[str, ColourName] = {**VERDICT_COLOURS, "fits": "busy"}
"""A rank that fits has no colour of its own: a green grid would hide the rest."""
SIGNS = {verdict: f"{VERDICT_SIGNS[verdict]} " for verdict in ("tight", "does not fit")}
_ROUND = 4
_BAR = 4
_INSET = 8
_PICTURES = 300
"""Maximum number of cards cached as pictures: more than a screen shows."""


class RankGridPainter:
    """Painter of one grid at one zoom step."""

    def __init__(self, palette: Palette, model: RankGridModel, layout: Layout) -> None:
        self._palette = palette
        self._model = model
        self._layout = layout
        bold = font(Type.BODY)
        bold.setWeight(QFont.Weight.DemiBold)
        self._body, self._small, self._bold = map(_Face.of, (font(Type.BODY), font(Type.SMALL), bold))
        self._marker = MarkerShape(palette, model, layout)
        self._period = period_of(model, layout) if model.is_grouped else 1
        self._stripe = INSET if model.is_grouped else 0
        self._pictures: dict[int, QPixmap] = {}
        self._colour = cache(lambda name: QColor(palette.named(name)))
        self._many = cache(self._rectangles)

    def paint(self, painter: QPainter, area: Box, marks: Markers) -> None:
        """Paint the content of `area`; the painter's origin is the grid's."""
        shown = self._layout.cards_between(area.top, area.bottom)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._layout.step.detail in (Detail.TILES, Detail.CELLS):
            self._paint_many(painter, shown)
        else:
            for at in shown:
                card = self._layout.cards[at]
                if card.meets(area):
                    painter.drawPixmap(
                        card.left, card.top, self._picture(at, painter.device().devicePixelRatioF())
                    )
        self._marker.paint(painter, shown, marks)

    # zoomed out: rectangles of one colour at a time

    def _paint_many(self, painter: QPainter, shown: range) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        painter.setPen(Qt.PenStyle.NoPen)
        step = 64
        for block in range(shown.start // step, -(-shown.stop // step)):
            for colour, rectangles in self._many(block * step, (block + 1) * step):
                painter.setBrush(QColor(colour))
                painter.drawRects(rectangles)
        if self._layout.step.header:
            for at in shown:
                self._paint_name(painter, self._model.nodes[at], self._layout.cards[at])

    def _paint_name(self, painter: QPainter, node: ModelNode, card: Box) -> None:
        step = self._layout.step
        line = Box(card.left + step.padding, card.top, card.width - 2 * step.padding, step.header)
        self._text(painter, self._small, "text" if node.is_on else "quiet", line, node.name)

    def _rectangles(self, first: int, last: int) -> list[tuple[str, list[QRect]]]:
        found: dict[str, list[QRect]] = defaultdict(list)
        tiles = self._layout.step.detail is Detail.TILES
        for at in range(first, min(last, len(self._model.nodes))):
            node = self._model.nodes[at]
            if tiles:
                self._add(found, self._layout.cards[at], self._tile_slot(node))
                continue
            found[self._palette.surface if node.is_on else self._palette.window].append(
                QRect(*self._layout.cards[at])
            )
            for place, slot in enumerate(node.slots):
                self._add(found, self._layout.cell(at, place), slot)
        return list(found.items())

    def _tile_slot(self, node: ModelNode) -> Slot | None:
        """Return the slot that represents a node: the one with the highest memory use."""
        if not node.is_on:
            return None
        return max(node.slots, key=lambda slot: -1.0 if slot.need is None else slot.need.share or 0.0)

    def _add(self, found: dict[str, list[QRect]], box: Box, slot: Slot | None) -> None:
        """Add the visible parts of a slot at `box`."""
        if slot is None or slot.rank is None:
            found[self._palette.line].append(QRect(*box))
        elif slot.need is not None and slot.need.verdict in SIGNS:
            found[self._palette.named(BAR_COLOURS[slot.need.verdict])].append(QRect(*box))
        else:
            # the pale backgrounds of groups are too faint without text on them
            look = self._look(slot)
            found[self._palette.series[look.colour]] += [QRect(*part) for part in pieces(box, look.fill)]

    def _look(self, slot: Slot) -> GroupLook:
        return group_look(slot.group, self._period)

    # zoomed in: cards with text

    def _picture(self, at: int, ratio: float) -> QPixmap:
        """Return the card painted once: text is slow to paint."""
        picture = self._pictures.pop(at, None)
        if picture is None:
            card = self._layout.cards[at]
            picture = QPixmap(round(card.width * ratio), round(card.height * ratio))
            picture.setDevicePixelRatio(ratio)
            picture.fill(Qt.GlobalColor.transparent)
            painter = QPainter(picture)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.translate(-card.left, -card.top)
            self._paint_card(painter, at)
            painter.end()
        self._pictures[at] = picture  # the last one used is at the end
        while len(self._pictures) > _PICTURES:
            del self._pictures[next(iter(self._pictures))]
        return picture

    def _paint_card(self, painter: QPainter, at: int) -> None:
        node, card = self._model.nodes[at], self._layout.cards[at]
        palette = self._palette
        painter.setPen(_pen(palette.line if node.is_on else palette.quiet, dashed=not node.is_on))
        painter.setBrush(QColor(palette.surface if node.is_on else palette.window))
        painter.drawRoundedRect(_inner(card), 6, 6)
        self._paint_heading(painter, at, node, card)
        for place, slot in enumerate(node.slots):
            cell = self._layout.cell(at, place)
            self._paint_ground(painter, slot, cell)
            if self._layout.step.detail is Detail.WORDS:
                self._paint_words(painter, Spot(at, place), slot, cell)
            else:
                self._paint_number(painter, slot, cell)

    def _paint_heading(self, painter: QPainter, at: int, node: ModelNode, card: Box) -> None:
        switch = self._layout.switch(Spot(at))
        left = card.left + self._layout.step.padding
        if switch is not None:
            self._paint_switch(painter, switch, is_on=node.is_on)
            left = switch.right + _INSET
        room = card.right - self._layout.step.padding - left
        line = Box(left, card.top, room, self._layout.step.header)
        count = sum(slot.index is not None for slot in node.slots)
        kind = (
            f"{count} × {node.kind}" if count else f"{node.ranks} on {node.kind}" if node.ranks else node.kind
        )
        name = self._bold.metrics.horizontalAdvance(node.name)
        group = group_words(self._model, node)
        for said in (f"{group} · {kind}", group) if group else (kind,):
            width = self._small.metrics.horizontalAdvance(said)
            if name + width + 2 * _INSET <= room:
                self._text(painter, self._small, "secondary", line, said, Qt.AlignmentFlag.AlignRight)
                line = line._replace(width=room - width - _INSET)
                break
        self._text(painter, self._bold, "text" if node.is_on else "quiet", line, node.name)

    def _paint_switch(self, painter: QPainter, box: Box, *, is_on: bool) -> None:
        palette = self._palette
        painter.setPen(_pen(palette.accent if is_on else palette.secondary))
        painter.setBrush(QColor(palette.accent if is_on else palette.surface))
        painter.drawRoundedRect(_inner(box), 3, 3)
        if is_on:
            painter.setPen(QPen(QColor(palette.on_accent), 2))
            x, y = box.left, box.top
            painter.drawPolyline([QPoint(x + 4, y + 8), QPoint(x + 7, y + 11), QPoint(x + 12, y + 5)])

    def _paint_ground(self, painter: QPainter, slot: Slot, cell: Box) -> None:
        if slot.rank is None:
            painter.setPen(_pen(self._palette.quiet, dashed=True))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self._palette.groups[self._look(slot).colour]))
        painter.drawRoundedRect(_inner(cell), _ROUND, _ROUND)
        if self._stripe and slot.rank is not None:
            self._paint_stripe(painter, self._look(slot), cell)
        if slot.need is not None and slot.need.share is not None:
            self._paint_bar(painter, slot.need, cell)

    def _paint_stripe(self, painter: QPainter, look: GroupLook, cell: Box) -> None:
        stripe = Box(cell.left + 3, cell.top + 4, STRIPE, cell.height - 8)
        for part in pieces(stripe, look.fill):
            painter.fillRect(QRect(*part), QColor(self._palette.series[look.colour]))

    def _paint_bar(self, painter: QPainter, need: Need, cell: Box) -> None:
        inset = _INSET if self._layout.step.detail is Detail.WORDS else _ROUND
        left = inset + self._stripe
        track = QRect(cell.left + left, cell.bottom - _BAR - 3, cell.width - left - inset, _BAR)
        ground = QColor(self._palette.text)
        ground.setAlpha(48)
        painter.fillRect(track, ground)
        track.setWidth(max(1, round(track.width() * min(1.0, need.share or 0.0))))
        painter.fillRect(track, self._colour(BAR_COLOURS[need.verdict]))

    def _paint_number(self, painter: QPainter, slot: Slot, cell: Box) -> None:
        if slot.rank is None:
            return
        line = Box(
            cell.left + self._stripe,
            cell.top,
            cell.width - self._stripe,
            cell.height - (_BAR if slot.need is not None else 0),
        )
        sign = "" if slot.need is None else SIGNS.get(slot.need.verdict, "")
        self._text(painter, self._small, "text", line, f"{sign}{slot.rank}", Qt.AlignmentFlag.AlignHCenter)

    def _paint_words(self, painter: QPainter, spot: Spot, slot: Slot, cell: Box) -> None:
        height = (cell.height - _BAR - 6) // 2
        left = _INSET + self._stripe
        first = Box(cell.left + left, cell.top + 3, cell.width - left - _INSET, height)
        second = first._replace(top=first.top + height - 2)
        switch = self._layout.switch(spot) if slot.index is not None else None
        if switch is not None:
            self._paint_switch(painter, switch, is_on=slot.rank is not None)
            first = first._replace(width=switch.left - 4 - first.left)
        if slot.rank is None:
            self._text(painter, self._body, "quiet", first, slot.device)
            self._text(painter, self._small, "quiet", second, "not used")
            return
        title = f"rank {slot.rank}"
        self._text(painter, self._bold, "text", first, title)
        used = self._bold.metrics.horizontalAdvance(title) + _INSET
        beside = first._replace(left=first.left + used, width=first.width - used)
        # a truncated name is useless
        if self._small.metrics.horizontalAdvance(slot.device) <= beside.width:
            self._text(painter, self._small, "secondary", beside, slot.device)
        if slot.need is not None:
            self._paint_need(painter, slot.need, second)

    def _paint_need(self, painter: QPainter, need: Need, line: Box) -> None:
        sign = SIGNS.get(need.verdict, "")
        share = "" if need.share is None else percent(need.share)
        text = sign + of_capacity(need)
        metrics = self._small.metrics
        width = metrics.horizontalAdvance(share)
        if metrics.horizontalAdvance(text) > line.width:
            text = sign + size(need.peak_bytes)
        if metrics.horizontalAdvance(text) + width + _INSET <= line.width:
            self._text(painter, self._small, "secondary", line, share, Qt.AlignmentFlag.AlignRight)
        self._text(painter, self._small, BAR_COLOURS[need.verdict] if sign else "text", line, text)

    def _text(
        self,
        painter: QPainter,
        face: _Face,
        colour: ColourName,
        box: Box,
        text: str,
        side: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft,
    ) -> None:
        metrics, text = face.metrics, shown(text)
        if metrics.horizontalAdvance(text) > box.width:
            text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, box.width)
        painter.setFont(face.font)
        painter.setPen(self._colour(colour))
        painter.drawText(QRect(*box), side | Qt.AlignmentFlag.AlignVCenter, text)


class _Face(NamedTuple):
    """Font with its metrics."""

    font: QFont
    metrics: QFontMetrics

    @classmethod
    def of(cls, made: QFont) -> _Face:
        return cls(made, QFontMetrics(made))


def _pen(colour: str, *, dashed: bool = False) -> QPen:
    return QPen(QColor(colour), 1, Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine)


def _inner(box: Box) -> QRect:
    """Return the rectangle whose line of one pixel is inside `box`."""
    return QRect(box.left, box.top, box.width - 1, box.height - 1)
