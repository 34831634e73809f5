"""A trained model → a file for other runtimes: ONNX, or a program of torch.export; checked before it appears."""

from saccade.export.exporting import Exported, export_model
from saccade.export.parity import Check

__all__ = ["Check", "Exported", "export_model"]
