"""Lines say what labels mean: several with the boxes that speak for them, numbers, answers to questions."""

import csv
import json
import math

import numpy as np

from saccade.looking import Look
from saccade.predict.line_formats import JsonLines, Table
from saccade.predict.outcomes import Prediction
from saccade.tasks.task import Said

LOOK = Look((64, 64), np.array([[0, 0, 8, 8], [8, 8, 16, 16]]), np.array([0.9, 0.5], np.float32))


def test_several_labels_and_the_boxes_that_speak_for_them():
    shares = {"open": 0.9, "short": 0.2, "spur": 0.75}
    speaks_for = (("open", "spur"), ())
    said = Prediction("open;spur", shares, LOOK, 1.0, 0.75, ("open", "spur"), speaks_for=speaks_for)
    line = JsonLines(tuple(shares)).line("a.jpg", said)
    tree = json.loads(line)
    assert (tree["label"], tree["labels"]) == ("open;spur", ["open", "spur"])
    assert [box["labels"] for box in tree["boxes"]] == [["open", "spur"], []]
    assert next(JsonLines(tuple(shares)).read([line])).image == "a.jpg"
    table = Table(tuple(shares))
    (row,) = csv.DictReader([table.head, table.line("a.jpg", said)])
    assert (row["label"], row["confidence"], row["boxes"]) == ("open;spur", "0.75", "0 0 8 8 open,spur;8 8 16 16")


def test_none_of_several_labels():
    said = Prediction(";", {"open": 0.1}, LOOK, 1.0, 0.9, ())
    assert json.loads(JsonLines(("open",)).line("a.jpg", said))["labels"] == []


def test_a_number_has_no_probabilities():
    said = Prediction("3.142", {}, LOOK, 1.0, math.nan, value=3.14159265)
    tree = json.loads(JsonLines(()).line("a.jpg", said))
    assert (tree["label"], tree["value"], tree["probabilities"]) == ("3.142", 3.14159, {})
    assert "labels" not in tree["boxes"][0]
    assert next(JsonLines(()).read([json.dumps({"image": "a.jpg", **tree})])) == ("a.jpg", False)
    row = next(csv.DictReader([Table(()).head, Table(()).line("a.jpg", said)]))
    assert (row["label"], row["confidence"]) == ("3.142", "")


def test_answers_to_several_questions():
    answers = {"kind": Said("steel", 0.8, ("steel",)), "age": Said("3.142", math.nan, (), 3.14159265)}
    shares = {"kind: brass": 0.2, "kind: steel": 0.8}
    said = Prediction("steel | 3.142", shares, LOOK, 1.0, 0.8, ("kind: steel",), answers=answers)
    assert json.loads(JsonLines(tuple(shares)).line("a.jpg", said))["answers"] == {"kind": "steel", "age": 3.14159}
