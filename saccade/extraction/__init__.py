"""image, Selection → patches."""

from saccade.extraction.extract import Extraction, extract
from saccade.extraction.grid import GEOMETRIES, Grid, make_grid
from saccade.extraction.grids import Grids
from saccade.extraction.receptive_field import ReceptiveField, receptive_field

__all__ = [
    "GEOMETRIES",
    "Extraction",
    "Grid",
    "Grids",
    "ReceptiveField",
    "extract",
    "make_grid",
    "receptive_field",
]
