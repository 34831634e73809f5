"""A trained model → a file for other runtimes: ONNX, or a program of torch.export; checked before it appears."""

from saccade.export.check import Check
from saccade.export.export import Exported, export_model

__all__ = ["Check", "Exported", "export_model"]
