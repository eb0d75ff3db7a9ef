"""Which paper an experiment is about, from the sources in experiments/."""

import re
from functools import cache

import yaml

from dpml import paths


@cache
def about(folder: str) -> str:
    """The authors and the year that most sources of a folder of experiments begin with."""
    sources = []
    for path in sorted(paths.folder("experiments").joinpath(folder).glob("[!_]*.yaml")):
        source = yaml.safe_load(path.read_text(encoding="utf-8"))["source"]
        sources.append(re.split(r", (?:Figs?\b|Table|Thm|Theorem|Sec|Prop|docs/)", source)[0])
    return max(sources, key=sources.count)
