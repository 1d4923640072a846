"""What is wrong with a drawn figure, found without looking at it."""

import itertools
from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text


def check(figure: Figure) -> None:
    """No panel is empty, and no text lies over another."""
    assert empty_panels(figure) == []
    assert overlapping_texts(figure) == []


def empty_panels(figure: Figure) -> list[Axes]:
    """Visible axes that show no data."""
    return [axes for axes in figure.axes if axes.get_visible() and not axes.has_data() and not axes.texts]


def overlapping_texts(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that are drawn over each other."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [text for text in _texts(figure) if text.get_visible() and text.get_text().strip()]
    upright = [(text, text.get_window_extent(canvas.get_renderer())) for text in texts if text.get_rotation() % 90 == 0]
    pairs = [(a.get_text(), b.get_text()) for (a, x), (b, y) in itertools.combinations(upright, 2) if _touch(x, y)]
    for axes in figure.axes:
        pairs += _touching_slanted(axes)
    return pairs


def _texts(figure: Figure) -> Iterator[Text]:
    yield from figure.texts
    for legend in figure.legends:
        yield from legend.get_texts()
    for axes in figure.axes:
        if axes.get_visible():
            yield from [*axes.texts, axes.title, axes._left_title, axes._right_title]
            if axes.axison:
                yield from [axes.xaxis.label, axes.yaxis.label, *_tick_labels(axes)]


def _tick_labels(axes: Axes) -> Iterator[Text]:
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            if low <= tick.get_loc() <= high and tick.label1.get_visible():
                yield tick.label1


def _touch(x, y) -> bool:
    width = min(x.x1, y.x1) - max(x.x0, y.x0)
    height = min(x.y1, y.y1) - max(x.y0, y.y0)
    return width > 1 and height > 1


def _touching_slanted(axes: Axes) -> list[tuple[str, str]]:
    # Labels slanted by 45° keep clear of each other if their anchors are far enough apart across the slant.
    slanted = [label for label in axes.get_xticklabels() if label.get_rotation() % 90]
    pairs = []
    for a, b in itertools.pairwise(slanted):
        places = [axes.transData.transform((label.get_position()[0], 0))[0] for label in (a, b)]
        if abs(places[1] - places[0]) * 0.707 < a.get_fontsize() * axes.get_figure().dpi / 72:
            pairs.append((a.get_text(), b.get_text()))
    return pairs
