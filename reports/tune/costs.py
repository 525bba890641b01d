"""Draws predicted times: a bar per model and task, divided into what opening, tensors and bytes cost."""

from __future__ import annotations

from dataclasses import dataclass

from bench import units
from bench.axis import Linear, tick_text
from bench.canvas import SMALL, Canvas, Drawing, fitted, text_width, wrapped
from common.outcomes import Json
from tune import selection

PARTS = (("open", "neutral"), ("per tensor", "orange-0"), ("per byte", "teal-0"))
ROW_HEIGHT, BAR_HEIGHT = 46, 16


@dataclass(frozen=True)
class Costs:
    title: str
    fit: Json
    predictions: list[Json]

    def reach(self) -> float:
        return 1.04 * max(max(one["high"], one["seconds"]) for one in self.predictions)

    def parts(self, one: Json) -> list[float]:
        """Returns the seconds of opening, tensors and bytes, scaled to the predicted time."""
        return parts_of(self.fit, one["tensors"], one["bytes"])

    def described(self) -> str:
        said = ", ".join(
            f"{one['workload']} {text_of(one)}" for one in self.predictions
        )
        return f"{self.title}, predicted times: {said}"


def parts_of(fit: Json, tensors: int, size_bytes: int) -> list[float]:
    return [
        float(fit["open_s"]),
        float(fit["per_tensor_s"] * tensors),
        float(fit["per_byte_s"] * size_bytes),
    ]


def text_of(one: Json) -> str:
    return (
        f"{units.number(one['seconds'])} s [{units.number(one['low'])}, "
        f"{units.number(one['high'])}]"
    )


def of_model(model: Json | None) -> list[Costs]:
    """Returns a chart per task that has predictions."""
    found = []
    for fit in model["fits"] if model else ():
        made = [one for one in model["predictions"] if one["task"] == fit["task"]]
        if made and max(one["high"] for one in made) > 0:
            found.append(Costs(selection.TITLES[fit["task"]], fit, made))
    return found


def draw(chart: Costs, width: float) -> Drawing:
    canvas = Canvas(width)
    canvas.text(0, 16, chart.title, size=14, bold=True)
    y = 16.0
    for line in wrapped(
        "Predicted seconds with the 95 % prediction interval, divided into what they consist of.",
        width,
        SMALL,
    ):
        y += 17
        canvas.text(0, y, line, "soft", SMALL)
    y += 20
    x = 0.0
    for name, colour in PARTS:
        canvas.rectangle(x, y - 9, 10, 10, colour)
        canvas.text(x + 15, y, name, "ink", SMALL)
        x += 15 + text_width(name, SMALL) + 16
    y += 8
    axis = Linear(0, width - 2, chart.reach())
    bottom = y + ROW_HEIGHT * len(chart.predictions)
    for tick in axis.ticks(4 if width < 400 else 6):
        canvas.line([(axis.at(tick), y + 4), (axis.at(tick), bottom)], "line", 1)
        half = text_width(tick_text(tick), SMALL) / 2
        middle = min(max(axis.at(tick), half), width - half)
        canvas.text(middle, bottom + 16, tick_text(tick), "soft", SMALL, "center")
    for one in chart.predictions:
        said = text_of(one)
        room = width - text_width(said, SMALL) - 10
        canvas.text(
            0, y + 18, fitted(one["workload"], room, SMALL, True), size=SMALL, bold=True
        )
        canvas.text(width, y + 18, said, "ink", SMALL, "right")
        middle = y + 24 + BAR_HEIGHT / 2
        start = 0.0
        for seconds, (_, colour) in zip(chart.parts(one), PARTS):
            end = start + seconds
            canvas.rectangle(
                axis.at(start),
                y + 24,
                axis.at(end) - axis.at(start),
                BAR_HEIGHT,
                colour,
            )
            start = end
        canvas.whisker(axis.at(one["low"]), axis.at(one["high"]), middle, 5)
        y += ROW_HEIGHT
    return canvas.finished(bottom + 24, chart.described())
