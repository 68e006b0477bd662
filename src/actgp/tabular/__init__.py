"""Files with tables: reading them, a model of one, what it says of another. It needs the extra `cli`."""

from actgp.tabular.fitting import Fitting, Settings, fit_frame
from actgp.tabular.model import TableModel
from actgp.tabular.predicting import predict_file
from actgp.tabular.reading import Reading, chunks, read_table
from actgp.tabular.scores import Scores

__all__ = [
    "Fitting",
    "Reading",
    "Scores",
    "Settings",
    "TableModel",
    "chunks",
    "fit_frame",
    "predict_file",
    "read_table",
]
