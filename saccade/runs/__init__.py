"""The files of a run: `RunFolder` knows their names, writes them, reads them and says what is wrong with them.

Everything here is plain: trees, tables and arrays. Nothing imports torch before it is needed.
"""

from saccade.runs.fold_folder import FoldFolder
from saccade.runs.remote_models import fetch_model
from saccade.runs.run_folder import RunFolder, find_model_folder

__all__ = ["FoldFolder", "RunFolder", "fetch_model", "find_model_folder"]
