"""Communities and Crime (UCI 183): predict violent crimes per head from 101 features of 1,994 communities."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info, Range, Raw
from dpml.data.info import Column, values
from dpml.data.table import RandomSplit, Table, read_csv

_UCI = "https://archive.ics.uci.edu"
_NORMALISED = values(
    "population householdsize racepctblack racePctWhite racePctAsian racePctHisp agePct12t21 agePct12t29 agePct16t24 "
    "agePct65up numbUrban pctUrban medIncome pctWWage pctWFarmSelf pctWInvInc pctWSocSec pctWPubAsst pctWRetire "
    "medFamInc perCapInc whitePerCap blackPerCap indianPerCap AsianPerCap HispPerCap NumUnderPov PctPopUnderPov "
    "PctLess9thGrade PctNotHSGrad PctBSorMore PctUnemployed PctEmploy PctEmplManu PctEmplProfServ PctOccupManu "
    "PctOccupMgmtProf MalePctDivorce MalePctNevMarr FemalePctDiv TotalPctDiv PersPerFam PctFam2Par PctKids2Par "
    "PctYoungKids2Par PctTeen2Par PctWorkMomYoungKids PctWorkMom NumIlleg PctIlleg NumImmig PctImmigRecent "
    "PctImmigRec5 PctImmigRec8 PctImmigRec10 PctRecentImmig PctRecImmig5 PctRecImmig8 PctRecImmig10 PctSpeakEnglOnly "
    "PctNotSpeakEnglWell PctLargHouseFam PctLargHouseOccup PersPerOccupHous PersPerOwnOccHous PersPerRentOccHous "
    "PctPersOwnOccup PctPersDenseHous PctHousLess3BR MedNumBR HousVacant PctHousOccup PctHousOwnOcc PctVacantBoarded "
    "PctVacMore6Mos MedYrHousBuilt PctHousNoPhone PctWOFullPlumb OwnOccLowQuart OwnOccMedVal OwnOccHiQuart RentLowQ "
    "RentMedian RentHighQ MedRent MedRentPctHousInc MedOwnCostPctInc MedOwnCostPctIncNoMtg NumInShelters NumStreet "
    "PctForeignBorn PctBornSameState PctSameHouse85 PctSameCity85 PctSameState85 LandArea PopDens PctUsePubTrans "
    "LemasPctOfficDrugUn"
)
_COLUMNS: dict[str, Column] = {"state": Range(1, 56), "fold": Range(1, 10)}
_COLUMNS |= {name: Range(0, 1) for name in _NORMALISED}


@dataclass(frozen=True)
class Crime(RandomSplit):
    """1,994 rows; of the 127 columns before the target the 102 without a missing value, without the community's name.

    These are the d = 101 features of Imtiaz et al. 2019, fig. 4 (they include the state and fold numbers).
    """

    info: ClassVar[Info] = Info(
        name="crime",
        title="Communities and Crime",
        task="regression",
        citation="M. Redmond, Communities and Crime, UCI, 2002, doi:10.24432/C53W3X",
        how_to_get="It is communities.data of https://archive.ics.uci.edu/dataset/183/communities+and+crime.",
        homepage="https://archive.ics.uci.edu/dataset/183/communities+and+crime",
        licence="CC BY 4.0",
        files=(
            Raw(
                "communities.data",
                urls=(
                    f"{_UCI}/static/public/183/communities+and+crime.zip!communities.data",
                    f"{_UCI}/ml/machine-learning-databases/communities/communities.data",
                ),
                # the same text with CRLF and with LF line ends: copies of both are in use
                sha256=(
                    "09e0b5c07eae24c1efab19b2edee05e160e7f5743b6f31e31eec3d73624da2ea",
                    "d90d85bd66bad9a00fa0ed6c15ac017b5966d528e55ba2940ad028d071353f95",
                ),
            ),
        ),
        rows=1994,
        features=101,
        parties="M = 5 (Imtiaz et al. 2019, fig. 4)",
        schema="The columns without a missing value, less the community's name. Target: violent crimes per head, in "
        "[0, 1] as published.",
        papers="Imtiaz et al. 2019 scale each feature by its largest absolute value over all rows, then all rows by "
        "the largest norm of the N drawn; they train on all N = 200, ..., 1800 rows and report the training loss.",
        differences="A fifth of the rows, drawn at random, is for testing, and scaling is fitted on the training rows "
        "only. The authors' own samples are `crime_authors`.",
        columns=_COLUMNS,
        target=Range(0, 1),
        bounds="communities.names: all numbers but those of states and folds are normalised into [0, 1], the target "
        "too. The publisher did that by means and deviations over all communities, which no budget counts; the file "
        "as published is taken as the data. State numbers (FIPS) end at 56, and there are ten folds.",
    )
    steps: tuple[str, ...] = ("max_abs", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["communities.data"], header=None, na_values="?", skipinitialspace=True)
        features = table.iloc[:, :-1].dropna(axis=1).select_dtypes("number")
        return Table(features.to_numpy(np.float64), table.iloc[:, -1].to_numpy(np.float64))
