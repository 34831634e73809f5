"""image, Selection → patches."""

from saccade.extraction.extract import Candidates, Extraction, extract
from saccade.extraction.grid import GEOMETRIES, Grid, make_grid
from saccade.extraction.receptive_field import ReceptiveField, receptive_field

__all__ = [
    "GEOMETRIES",
    "Candidates",
    "Extraction",
    "Grid",
    "ReceptiveField",
    "extract",
    "make_grid",
    "receptive_field",
]
