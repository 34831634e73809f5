"""Predictions of a data set → the table that a run folder keeps."""

import os

from saccade.data.records import Records
from saccade.evaluation.predictions import Predictions
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.tasks.task import Task, task_of


def tabulate(predictions: Predictions, records: Records, task: Task | None = None) -> PredictionTable:
    """A row for each image, with its path, its label and what the model said.

    task: the model's (default: what labels of the data set mean).
    """
    task = task or task_of(records.task, records.classes, records.questions)
    told = task.tell(predictions.logits.double())  # as `measure` takes them: sure answers keep their order
    has_kinds = any(record.kinds for record in records.records)
    rows = []
    for row, index in enumerate(predictions.index.tolist()):
        record, said = records.records[index], task.say(told[row])
        rows.append(
            PredictionRow(
                image=os.path.abspath(record.image),
                label=record.label,
                predicted=said.text,
                confidence=said.confidence,
                hit=float(predictions.hit[row]),
                overlap=float(predictions.overlap[row]),
                entropy=float(predictions.entropy[row]),
                probabilities=tuple(task.shares(told[row]).tolist()),
                boxes=record.boxes,
                kinds=record.kinds,
                hits=tuple(predictions.hits[row].tolist()) if has_kinds else (),
            )
        )
    return PredictionTable(task.classes, tuple(rows), records.task, records.questions)
