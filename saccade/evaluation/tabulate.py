"""Predictions of a data set → the table that a run folder keeps."""

import os

from saccade.data.records import Records
from saccade.evaluation.predictions import Predictions
from saccade.runs.prediction_tables import PredictionRow, PredictionTable


def tabulate(predictions: Predictions, records: Records) -> PredictionTable:
    """A row for each image, with its path, its label and what the model said."""
    # In double, as `measure` takes them: sure answers keep their order.
    shares = predictions.logits.double().softmax(dim=1)
    rows = []
    for row, index in enumerate(predictions.index.tolist()):
        record, probabilities = records.records[index], tuple(shares[row].tolist())
        best = int(shares[row].argmax())
        rows.append(
            PredictionRow(
                image=os.path.abspath(record.image),
                label=record.label,
                predicted=records.classes[best],
                confidence=probabilities[best],
                hit=float(predictions.hit[row]),
                overlap=float(predictions.overlap[row]),
                entropy=float(predictions.entropy[row]),
                probabilities=probabilities,
                boxes=record.boxes,
            )
        )
    return PredictionTable(records.classes, tuple(rows))
