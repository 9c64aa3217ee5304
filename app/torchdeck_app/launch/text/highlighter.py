"""Colours of TOML, line by line: only what was changed is looked at again."""

from __future__ import annotations

from PySide6.QtGui import QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from torchdeck_app.launch.text.toml_syntax import Kind, State, tokens
from torchdeck_app.theme.theme import Theme

_COLOURS = {
    Kind.COMMENT: "secondary",
    Kind.TABLE: "accent",
    Kind.KEY: "text",
    Kind.STRING: "good",
    Kind.NUMBER: "warn",
    Kind.CONSTANT: "bad",
}
_MOST = 100_000
"""Characters of a text that is coloured; a longer one would hold the window up, a microsecond for each."""


class TomlHighlighter(QSyntaxHighlighter):
    """Follows the theme."""

    def __init__(self, document: QTextDocument, theme: Theme) -> None:
        super().__init__(document)
        self._theme = theme
        self._formats = self._made()
        theme.changed.connect(self._repaint)

    def highlightBlock(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Colour one line; Qt goes on with the next ones while what they begin in changes."""
        if self.document().characterCount() > _MOST:
            return
        # offsets are Qt's: what is beyond the first plane is made two letters wide for the look at it
        line = text if text.isascii() else "".join(c if ord(c) < 0x10000 else "xx" for c in text)
        found, after = tokens(line, State(max(0, self.previousBlockState())))
        for token in found:
            self.setFormat(token.start, token.end - token.start, self._formats[token.kind])
        self.setCurrentBlockState(after)

    def _made(self) -> dict[Kind, QTextCharFormat]:
        formats = {}
        for kind, colour in _COLOURS.items():
            made = QTextCharFormat()
            made.setForeground(self._theme.colour(colour))
            if kind is Kind.TABLE:
                made.setFontWeight(QFont.Weight.DemiBold)
            formats[kind] = made
        return formats

    def _repaint(self) -> None:
        self._formats = self._made()
        self.rehighlight()
