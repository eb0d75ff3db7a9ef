"""KDD Cup 1999: attack (+1) or normal (-1) network connection, from the 10 % file and the labelled test file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data import Info, Range, Raw
from dpml.data.info import Column, values
from dpml.data.table import OfficialSplit, RandomSplit, Table, encode, read_csv
from dpml.errors import UserError

_SYMBOLIC = (1, 2, 3)  # protocol, service, flag
_GITHUB = "https://raw.githubusercontent.com/potash/brf-example/cb1486bbec7069eec30474bce4bf9478e867e9d2/data"
_UCI = "https://archive.ics.uci.edu"
_BYTES = Range(0, 2**32 - 1, log=True)
_COUNT = Range(0, 100, log=True)
_RATE = _FLAG = Range(0, 1)
_COLUMNS: dict[str, Column] = {
    "duration": Range(0, 86_400, log=True),
    "protocol_type": values("tcp udp icmp"),
    "service": values(
        "aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec finger ftp "
        "ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 IRC iso_tsap klogin kshell ldap "
        "link login mtp name netbios_dgm netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 "
        "printer private red_i remote_job rje shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time "
        "urh_i urp_i uucp uucp_path vmnet whois X11 Z39_50"
    ),
    "flag": values("OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH"),
    "src_bytes": _BYTES,
    "dst_bytes": _BYTES,
    "land": _FLAG,
    "wrong_fragment": _COUNT,
    "urgent": _COUNT,
    "hot": _COUNT,
    "num_failed_logins": _COUNT,
    "logged_in": _FLAG,
    "num_compromised": _COUNT,
    "root_shell": _FLAG,
    "su_attempted": _FLAG,
    "num_root": _COUNT,
    "num_file_creations": _COUNT,
    "num_shells": _COUNT,
    "num_access_files": _COUNT,
    "num_outbound_cmds": _COUNT,
    "is_host_login": _FLAG,
    "is_guest_login": _FLAG,
    "count": Range(0, 511),
    "srv_count": Range(0, 511),
    "serror_rate": _RATE,
    "srv_serror_rate": _RATE,
    "rerror_rate": _RATE,
    "srv_rerror_rate": _RATE,
    "same_srv_rate": _RATE,
    "diff_srv_rate": _RATE,
    "srv_diff_host_rate": _RATE,
    "dst_host_count": Range(0, 255),
    "dst_host_srv_count": Range(0, 255),
    "dst_host_same_srv_rate": _RATE,
    "dst_host_diff_srv_rate": _RATE,
    "dst_host_same_src_port_rate": _RATE,
    "dst_host_srv_diff_host_rate": _RATE,
    "dst_host_serror_rate": _RATE,
    "dst_host_srv_serror_rate": _RATE,
    "dst_host_rerror_rate": _RATE,
    "dst_host_srv_rerror_rate": _RATE,
}

_TRAIN = Raw(
    "kddcup.data_10_percent",
    urls=(
        "http://kdd.ics.uci.edu/databases/kddcup99/kddcup.data_10_percent.gz",
        f"{_UCI}/ml/machine-learning-databases/kddcup99-mld/kddcup.data_10_percent.gz",
        "https://ndownloader.figshare.com/files/5976042",
        f"{_GITHUB}/kddcup.data_10_percent.gz",
        f"{_UCI}/static/public/130/kdd+cup+1999+data.zip!kddcup.data_10_percent.gz",
    ),
    sha256=("f8c8267ebcd9c0ed1fd7d6277fe5bfff8732e9b7db8e61b873542b2a534b6f9a",),
)
_TEST = Raw(
    "corrected",
    urls=(
        "http://kdd.ics.uci.edu/databases/kddcup99/corrected.gz",
        f"{_UCI}/ml/machine-learning-databases/kddcup99-mld/corrected.gz",
        f"{_GITHUB}/corrected.gz",
        f"{_UCI}/static/public/130/kdd+cup+1999+data.zip!corrected.gz",
    ),
    sha256=("547dfb9c0f0dc1d9944219ec79e851191faebaeb8acbfa1cd171c418397052a4",),
)


def _parse(paths: Mapping[str, Path], stated: Mapping[str, Column]) -> Table:
    kinds = {column: "category" if column in (*_SYMBOLIC, 41) else "float64" for column in range(42)}
    parts, labels = [], []
    for path in paths.values():
        table = read_csv(path, header=None, dtype=kinds)
        labels.append(np.where(table[41] == "normal.", -1.0, 1.0))
        parts.append(table.iloc[:, :41])
    X, levels = encode(parts, _SYMBOLIC, stated)
    return Table(X, np.concatenate(labels), levels)


@dataclass(frozen=True)
class KDDCup99(OfficialSplit):
    """494,021 training rows (the 10 % file) and 311,029 test rows (`corrected`). Used by Hamm et al. 2016, fig. 3."""

    info: ClassVar[Info] = Info(
        name="kddcup99",
        title="KDD Cup 1999 (10 % file, corrected test file)",
        task="binary",
        citation="S. Hettich, S. D. Bay, The UCI KDD Archive, University of California, Irvine, 1999",
        how_to_get="It is part of http://kdd.ics.uci.edu/databases/kddcup99/kddcup99.html.",
        homepage="http://kdd.ics.uci.edu/databases/kddcup99/kddcup99.html",
        licence="CC BY 4.0",
        files=(_TRAIN, _TEST),
        rows=805_050,
        train_rows=494_021,
        features=118,
        classes={-1: 157_871, +1: 647_179},
        parties="M = 5000, 10000, 20000 of 22 rows each (Hamm et al. 2016)",
        schema="38 numeric features, then one 0/1 column for every value that protocol (3), service (66) and flag (11) "
        "have in the training file: d = 118. A service that only the test file has is all zeros. Label +1: any "
        "attack. Three quarters of the rows are exact duplicates of others.",
        papers="Hamm et al. 2016 report d of about 123 after one-hot coding and about 43,000 auxiliary rows; their "
        "scaling is not stated.",
        differences="d = 118, because only values that the 10 % file has become columns. Each feature is scaled to "
        "[0, 1], then all rows by the largest training norm.",
        columns=_COLUMNS,
        bounds="The task description (kdd.ics.uci.edu/databases/kddcup99/task.html) says which features are rates and "
        "which are 0 or 1, but has no lists of values: these are of the header of NSL-KDD, which others made from the "
        "full set; the 10 % file has all of them but 4 of the 70 services. Nothing documents caps. By what they mean: "
        "durations of up to a day, and bytes that 32 bits can count; 511 and 255 are where the counters of two seconds "
        "and of the last connections to a host stop; other counts go up to 100.",
    )
    steps: tuple[str, ...] = ("one_hot", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        return _parse(paths, self.stated)


@dataclass(frozen=True)
class KDDCup9970k(RandomSplit):
    """`sample` rows of the 10 % file, drawn without replacement, then split. Used by Kang et al. 2019.

    Args:
        sample: Rows drawn, without replacement.
    """

    info: ClassVar[Info] = replace(
        KDDCup99.info,
        name="kddcup99_70k",
        title="KDD Cup 1999, 70,000 rows of the 10 % file",
        files=(_TRAIN,),
        folders=("kddcup99",),
        rows=494_021,
        train_rows=None,
        classes={-1: 97_278, +1: 396_743},
        parties="M = 2, 4, 8, 16, 32 (Kang et al. 2019)",
        schema="As kddcup99. The rows are drawn anew for every seed.",
        papers="Kang et al. 2019 use 70,000 rows of the 10 % file. Code in circulation for this subset draws them with "
        "replacement, so that copies of a row lie on both sides of the split.",
        differences="Rows are drawn without replacement and a fifth of them is for testing; each feature is scaled to "
        "[0, 1], then all rows by the largest training norm. The file's own duplicate rows remain.",
    )
    sample: int = 70_000
    steps: tuple[str, ...] = ("one_hot", "min_max", "max_norm")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.sample <= self.info.rows:
            raise UserError(f"dataset.sample must be in 1..{self.info.rows}, got {self.sample}.")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        return _parse(paths, self.stated)

    def drawn(self) -> int:
        return self.sample

    def draw(self, y: Array, rng: Generator) -> Index:
        return rng.permutation(len(y))[: self.sample]
