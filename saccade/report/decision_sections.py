"""The sections of a report on probabilities and decisions: can they be believed, and what was decided by them."""

from typing import Any, NamedTuple

from saccade.deciding import Thresholds
from saccade.evaluation.calibration import Bin
from saccade.report.decision_numbers import decision_numbers, read_rule, threshold_rows
from saccade.report.numbers import show_both
from saccade.report.plots import reliability_chart, threshold_chart
from saccade.report.rendering import Picture, chart
from saccade.report.task_numbers import truths_of
from saccade.runs.prediction_tables import PredictionTable
from saccade.runs.run_contents import Run


class Believed(NamedTuple):
    """Whether probabilities are what they say: a picture for each question, and a line on the temperature."""

    note: str
    pictures: list[Picture]


class Decided(NamedTuple):
    """What a rule decides: thresholds and numbers as tables, and a picture where there are thresholds."""

    asked: str
    thresholds: list[tuple[str, ...]]
    numbers: list[tuple[str, ...]]
    pictures: list[Picture]
    note: str = ""


def show_reliability(run: Run) -> Believed | None:
    """Of each question what was said with which confidence, and how often it was right; before and with temperature."""
    found = run.evaluation.get("reliability") or {}
    if not found:
        return None
    temperatures = _temperatures(run.evaluation.get("task", {}))
    pictures = []
    for question, each in found.items():
        raw, told = ([Bin(*one) for one in each[name]] for name in ("raw", "told"))
        temperature = temperatures.get(question)
        figure = reliability_chart(raw, told if temperature else None, title=question)
        pictures.append(chart(figure, f"Reliability {question}".strip()))
    return Believed(_say(temperatures), pictures)


def _temperatures(spec: dict[str, Any]) -> dict[str, float]:
    if spec.get("name") == "questions":
        each = {one["name"]: one["task"].get("temperature") for one in spec["questions"]}
    else:
        each = {"": spec.get("temperature")}
    return {name: value for name, value in each.items() if value}


def _say(temperatures: dict[str, float]) -> str:
    line = "On the diagonal probabilities are what they say: of answers that are 80% sure, 80% are right. Bars: 95%."
    if not temperatures:
        return f"{line} No temperature is used: on the validation images none was better by more than chance."
    told = ", ".join(f"{value:.3g}{f' for {name}' if name else ''}" for name, value in temperatures.items())
    return f"{line} Logits are divided by a temperature of {told}, fitted to the validation images; gray: without."


def show_decisions(run: Run, table: PredictionTable) -> Decided | None:
    """The rule of the model and what it brings; None if it has none."""
    rule = read_rule(run.evaluation, table)
    if rule is None:
        return None
    numbers = [(number.name, show_both(number), number.meaning) for number in decision_numbers(table, rule)]
    pictures = []
    if isinstance(rule, Thresholds):
        for name in list(rule.thresholds)[:6]:
            share, there = truths_of(table, name)
            if there.any():
                figure = threshold_chart(share, there, rule.of(name), title=name)
                pictures.append(chart(figure, f"Recall and precision of {name} by threshold"))
    return Decided(rule.asked, threshold_rows(rule), numbers, pictures)
