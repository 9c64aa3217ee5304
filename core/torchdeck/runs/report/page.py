"""Report as one HTML page without scripts or references to other files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from torchdeck.quantities import moment
from torchdeck.runs.report.chart import chart, stroke
from torchdeck.runs.report.content import Plot, Report, RunContent
from torchdeck.shown_text import shown

BODY = "max-width: 980px; margin: 32px auto; padding: 0 24px;"
"""Width and margins on a screen."""
_RULES = """
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 32px 0 8px; }
.made, .id, dt { color: #57606a; } .state { font-weight: 600; }
.SUCCEEDED { color: #1a7f37; } .FAILED, .LOST { color: #cf222e; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(440px, 1fr)); gap: 16px; }
svg { width: 100%; font: 11px system-ui, sans-serif; } svg .title { font-size: 13px; font-weight: 600; }
svg .tick { fill: #57606a; } svg .grid { stroke: #e5e7eb; } polyline { stroke-width: 1.3; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 16px; }
.legend svg { width: 24px; height: 8px; vertical-align: middle; margin-right: 6px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; } dd { margin: 0; }
pre { background: #f6f8fa; border: 1px solid #e5e7eb; border-radius: 6px; padding: 12px; overflow-x: auto;
  font: 12.5px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid #e5e7eb; }
.note { white-space: pre-wrap; } section { break-inside: avoid-page; }
.tag { background: #eef2ff; border-radius: 4px; padding: 1px 6px; }
"""
_STYLE = f"body {{ font: 15px/1.5 system-ui, sans-serif; color: #1f2328; background: #fff; {BODY} }}{_RULES}"
_SOURCES = "default-src 'none'; style-src 'unsafe-inline'"
_POLICY = f'<meta http-equiv="Content-Security-Policy" content="{_SOURCES}">'


def html_page(report: Report) -> str:
    """Return the page; everything from runs is escaped."""
    title = escape(shown(report.title))
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            _POLICY,
            f"<title>{title}</title><style>{_STYLE}</style></head><body>",
            f'<h1>{title}</h1><p class="made">Report made {moment(report.made)} with Torchdeck</p>',
            *_overview(report),
            *_plots(report.plots),
            *_differences(report),
            *(part for run in report.runs for part in _run(run, alone=len(report.runs) == 1)),
            "</body></html>",
            "",
        )
    )


def _overview(report: Report) -> Iterator[str]:
    if len(report.runs) == 1:
        yield _state(report.runs[0])
        return
    yield '<ul class="legend">'
    for number, run in enumerate(report.runs):
        line = f'<line x1="0" x2="24" y1="4" y2="4" stroke-width="2" {stroke(number)}/>'
        line = f'<svg viewBox="0 0 24 8">{line}</svg>'
        yield f"<li>{line}{_text(run.label)} {_word(run)}</li>"
    yield "</ul>"


def _plots(plots: Sequence[Plot]) -> Iterator[str]:
    drawn = [text for plot in plots if (text := chart(shown(plot.title), plot.lines, plot.colours))]
    if drawn:
        yield f'<h2>Metrics</h2><div class="plots">{"".join(drawn)}</div>'


def _differences(report: Report) -> Iterator[str]:
    if report.differences:
        heads = "".join(f"<th>{_text(run.label)}</th>" for run in report.runs)
        rows = "".join(
            f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in report.differences
        )
        yield f"<h2>Different settings</h2><table><tr><th>Key</th>{heads}</tr>{rows}</table>"


def _run(run: RunContent, *, alone: bool) -> Iterator[str]:
    yield "<section>"
    if not alone:
        yield f"<h2>{_text(run.label)}</h2>{_state(run)}"
    if run.tags or run.note:
        tags = " ".join(f'<span class="tag">{_text(tag)}</span>' for tag in run.tags)
        yield (
            f"<h2>Notes</h2><p>{tags}</p><p>{_text(run.note)}</p>"
            if alone
            else f"<p>{tags} {_text(run.note)}</p>"
        )
    if any(line.strip() for line in run.verdict):
        head = "<h2>Result</h2>" if alone else ""
        yield f"{head}<pre>{_text(chr(10).join(run.verdict).strip(chr(10)))}</pre>"
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in run.facts)
    yield f"{'<h2>Run</h2>' if alone else ''}<dl>{facts}</dl>"
    if run.configuration:
        yield f"{'<h2>Configuration</h2>' if alone else ''}<pre>{_text(run.configuration)}</pre>"
    yield "</section>"


def _state(run: RunContent) -> str:
    why = f": {_text(run.why)}" if run.why else ""
    return f'<p>{_word(run)}{why}</p><p class="id">{_text(run.id)}</p>'


def _word(run: RunContent) -> str:
    word = _text(run.state)
    return f'<span class="state {word.partition(" ")[0]}">{word}</span>'


def _text(text: str) -> str:
    return escape(shown(text))
