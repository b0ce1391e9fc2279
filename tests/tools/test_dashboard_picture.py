"""The picture of the dashboard: all its panels, with the results of their queries."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree as ET

from dashboard_picture import Span, picture
from lockfast import observe

BOARD = json.loads(observe.dashboard())
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "dashboard.svg"


def texts(svg: str) -> list[str]:
    return [one.text for one in ET.fromstring(svg).iter() if one.text]  # noqa: S314 - our own


def test_every_series_is_drawn_and_named_as_the_legend_says():
    asked = [(one["expr"], panel) for panel in BOARD["panels"] for one in panel["targets"]]
    labels = [(one, "<a>") for one in ("outcome", "pattern", "reason", "request", "store")]
    points = [(0.0, 0.5), (30.0, math.nan), (60.0, 1.5), (90.0, 3.0)]
    answers = {expression: {tuple(labels): points} for expression, _ in asked}

    svg = picture(BOARD, answers, Span(0.0, 90.0, 30.0, [(45.0, "A")]), about="A test.")

    assert "nan" not in svg
    found = texts(svg)
    assert {panel["title"] for panel in BOARD["panels"]} <= set(found)
    assert {"<a>", "<a> p50", "<a> p99", "<a> p1", "<a> <a>: <a>"} <= set(found)
    assert found.count("A") == len(BOARD["panels"])


def test_the_picture_in_the_documentation_is_of_this_dashboard():
    """If this fails, run tools/draw_dashboard.py."""
    found = texts(PICTURE.read_text(encoding="utf-8"))

    assert [one for one in found if one in {panel["title"] for panel in BOARD["panels"]}] == [
        panel["title"] for panel in BOARD["panels"]
    ]
