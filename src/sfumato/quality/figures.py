"""Pictures are written as SVG, by hand: small, sharp, and with nothing to load."""

from __future__ import annotations

import html
from collections.abc import Sequence

REAL, SYNTHETIC = "#2b3a4f", "#d08a2e"
_BAR, _RULE, _TEXT = "#7a8ca5", "#d5d9e0", "#333a45"
_LETTER = 6.4
"""The width of a letter, about, in pixels."""
_LONGEST = 28


def short(label: str) -> str:
    """Cut a label to what fits beside a picture."""
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"


def bars(labels: Sequence[str], values: Sequence[float], most: float = 1.0) -> str:
    """Draw a bar for each value, with its number at the end."""
    left, wide, step = _margin(labels), 380, 22
    top = max(most, *values, 1e-9)
    parts = []
    for place, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = place * step
        length = max(0.5, value / top * wide)
        parts.append(_label(left - 8, y + 15, label, "end"))
        parts.append(f'<rect x="{left}" y="{y + 4}" width="{length:.1f}" height="14" fill="{_BAR}"/>')
        parts.append(f'<text x="{left + length + 6:.1f}" y="{y + 15}">{value:.3f}</text>')
    return _svg(left + wide + 60, len(values) * step + 4, parts)


def paired_bars(labels: Sequence[str], real: Sequence[float], synthetic: Sequence[float]) -> str:
    """Draw two bars for each label: the share in the real table, and in the synthetic one."""
    left, wide, step = _margin(labels), 300, 24
    top = max(*real, *synthetic, 1e-9)
    parts = []
    for place, (label, one, other) in enumerate(zip(labels, real, synthetic, strict=True)):
        y = place * step
        parts.append(_label(left - 8, y + 15, label, "end"))
        for share, shift, colour in ((one, 3, REAL), (other, 12, SYNTHETIC)):
            parts.append(
                f'<rect x="{left}" y="{y + shift}" width="{max(0.5, share / top * wide):.1f}" height="8" '
                f'fill="{colour}"><title>{html.escape(label)}: {share:.4f}</title></rect>'
            )
        parts.append(
            f'<text x="{left + max(one, other) / top * wide + 6:.1f}" y="{y + 15}">{one:.3f} · {other:.3f}</text>'
        )
    return _svg(left + wide + 100, len(labels) * step + 4, parts)


def heat_map(names: Sequence[str], cells: Sequence[Sequence[float]], *, signed: bool = False) -> str:
    """Draw a square of coloured cells: from white to dark, or with ``signed`` from blue over white to red."""
    side = max(14, min(40, 640 // max(1, len(names))))
    left = _margin(names)
    top = max((abs(value) for row in cells for value in row), default=0) or 1.0
    parts = []
    for row, (name, values) in enumerate(zip(names, cells, strict=True)):
        parts.append(_label(left - 8, row * side + side * 0.65, name, "end"))
        for column, value in enumerate(values):
            where = f'x="{left + column * side}" y="{row * side}" width="{side - 1}" height="{side - 1}"'
            said = f"{html.escape(name)} × {html.escape(names[column])}: {value:.4f}"
            parts.append(f'<rect {where} fill="{_colour(value / top, signed)}"><title>{said}</title></rect>')
            if side >= 34:
                ink = "#fff" if abs(value / top) > 0.55 else _TEXT
                at = f'x="{left + column * side + side / 2:.1f}" y="{row * side + side * 0.6:.1f}"'
                parts.append(f'<text {at} text-anchor="middle" font-size="10" fill="{ink}">{_number(value)}</text>')
    high = len(names) * side
    for column, name in enumerate(names):
        x = left + column * side + side / 2 + 4
        turned = f'transform="translate({x:.1f},{high + 8}) rotate(-90)" text-anchor="end"'
        parts.append(f"<text {turned}>{html.escape(short(name))}</text>")
    parts.append(_scale(left, high + left + 4, top, signed))
    return _svg(left + high + 20, high + left + 44, parts)


def curves(shares: Sequence[float], lines: Sequence[tuple[str, Sequence[float], str]]) -> str:
    """Draw lines of quantiles: across the share of rows, and up the distance that so many do not exceed."""
    left, wide, high = 44, 420, 200
    top = max((value for _, values, _ in lines for value in values), default=0) or 1.0
    parts = [f'<path d="M{left} 6V{high}H{left + wide}" fill="none" stroke="{_RULE}"/>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(_label(left + share * wide, high + 16, f"{share:.0%}", "middle"))
        parts.append(_label(left - 6, high - share * (high - 10) + 4, f"{share * top:.2f}", "end"))
    for place, (name, values, colour) in enumerate(lines):
        points = " ".join(
            f"{left + share * wide:.1f},{high - value / top * (high - 10):.1f}"
            for share, value in zip(shares, values, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 14}" y="{22 + 16 * place}" fill="{colour}">{html.escape(name)}</text>')
    return _svg(left + wide + 30, high + 24, parts)


def _margin(labels: Sequence[str]) -> int:
    return int(_LETTER * max((len(short(each)) for each in labels), default=0)) + 18


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(short(text))}</text>'


def _number(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("0.", ".", 1)


def _colour(share: float, signed: bool) -> str:
    """Give a colour between white and the dark end of a share from 0 to 1, or of one side for each sign."""
    end = (43, 58, 79) if not signed else (176, 58, 46) if share > 0 else (36, 90, 150)
    return "#" + "".join(f"{round(255 + (each - 255) * min(1.0, abs(share))):02x}" for each in end)


def _scale(x: float, y: float, top: float, signed: bool) -> str:
    """Draw what the colours mean."""
    shares = [place / 10 for place in range(-10 if signed else 0, 11)]
    cells = "".join(
        f'<rect x="{x + 14 * place}" y="{y}" width="14" height="10" fill="{_colour(share, signed)}"/>'
        for place, share in enumerate(shares)
    )
    ends = _label(x, y + 24, f"{shares[0] * top:.2f}", "start") + _label(
        x + 14 * len(shares), y + 24, f"{top:.2f}", "end"
    )
    return cells + ends


def _svg(wide: float, high: float, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}"'
    look = f'font-family="system-ui, sans-serif" font-size="12" fill="{_TEXT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {look}>{"".join(parts)}</svg>'
