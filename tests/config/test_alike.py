"""Jobs that differ in values only are composed once: their configurations are what Hydra composes of all words."""

import pickle
import shutil
from functools import partial

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from quick import quick_first

from dpml.api import settings
from dpml.config import readers
from dpml.config.alike import Alike
from dpml.config.compose import initialise
from dpml.files import shipped_folder

JOBS = [
    [],
    ["eps=0.5", "M=3"],
    ["eps=[0.1,1]", "seed=[0,1,2]", "delta=null"],
    ["seed=${M}", "N=${oc.decode:'100'}"],
    ["algo.lam=0.1", "algo=dpgd", "algo.rounds=7", "dataset=crime", "dataset.bounds=fitted"],
    ["algo.lam=2", "~algo.lam", "+algo.extra=1"],
    ["+algo.extra={a: 1}", "algo.extra.a=2"],
    ["++algo.lam=4", "++algo.more.deep=5", "M=7"],
    ["algo.lam=4", "algo={lam: 3}"],
    ["adversary={colluders: 1}", "run={workers: 2, dry: true}"],
    ["partition=shards", "partition.auxiliary=0.1", "adversary.colluders=2"],
    ["data_dir='a b, c=d'", 'mirror="x\\"y"', "results_dir=a\\=b"],
    ["calibration='null'", "loss=null", "objective=''"],
    ["eps=1e6", "delta=1.0e-5", "M=010", "offline=yes", "draws=0x10"],
    ["eps=1", "eps=2"],
    ["experiment=hamm2016/fig2", "algo=gop", "seed=[0,1]", "run.only=failed"],
    ["++experiment.columns=2", "experiment=hamm2016/fig2", "experiment.title=Other"],
    ["experiment=hamm2016"],
]
REFUSED = [
    ["algo.lamm=1", "eps=1"],
    ["eps"],
    ["~nothing"],
    ["+eps=2"],
]


@pytest.fixture(scope="module")
def alike():
    with initialise():
        loader = GlobalHydra.instance().config_loader()
        yield Alike(partial(hydra.compose, "config"), lambda key: bool(loader.get_group_options(key)))


@pytest.mark.slow_cases(
    "",
    "algo.lam=0.1 algo=dpgd algo.rounds=7 dataset=crime dataset.bounds=fitted",
    "algo.lam=2 ~algo.lam +algo.extra=1",
    "algo.lam=4 algo={lam: 3}",
)
@pytest.mark.parametrize("words", quick_first(JOBS, 9), ids=" ".join)
def test_a_copy_with_values_is_what_hydra_composes(alike, words):
    expected = hydra.compose("config", words)
    for shared in (False, False, True, True):  # the second is from what is kept, the last the object of the one before
        composed = alike(words, shared=shared)
        assert OmegaConf.to_yaml(composed) == OmegaConf.to_yaml(expected)
        assert pickle.dumps(OmegaConf.to_container(composed)) == pickle.dumps(OmegaConf.to_container(expected))
        assert OmegaConf.is_struct(composed)


IN_TURN = [
    ["eps=[0.1,1]", "M=3", "adversary={colluders: 1}"],
    ["eps=${M}", "M=4", "adversary={colluders: null}"],
    ["eps=0.5", "M=[5,6]", "adversary={}"],
    ["M=7", "eps=0.5", "adversary={}"],
    ["eps=null", "M=${seed}", "adversary=null"],
    ["eps={a: 1}", "M=3", "adversary={colluders: 1}"],
    ["eps={b: 1}", "M=3", "adversary={colluders: 1}"],
    ["eps=2", "M=3", "adversary={colluders: 1}"],
    ["eps=2"],
    ["eps=${M}", "M=[4,5]"],
    ["eps=[0.1]", "M=[1,2,3]"],
    ["M=3"],
    [],
]


@pytest.mark.slow
def test_one_object_for_several_jobs_has_nothing_of_the_one_before(alike):
    for number, words in enumerate([*IN_TURN, *IN_TURN[::-1]]):
        expected = hydra.compose("config", words)
        assert OmegaConf.to_yaml(alike(words, shared=True)) == OmegaConf.to_yaml(expected), number
    first, second = (alike([f"eps={eps}", "M=3"], shared=True) for eps in (1, 2))
    assert first is second


@pytest.mark.slow_cases("+eps=2", "~nothing")
@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_mistake_is_hydras(alike, words):
    with pytest.raises((HydraException, ValueError)) as expected:
        hydra.compose("config", words)
    with pytest.raises(type(expected.value)) as mistake:
        alike(words)
    assert str(mistake.value) == str(expected.value)


@pytest.mark.slow
def test_jobs_that_differ_in_values_are_composed_once(monkeypatch):
    composed = []

    def compose(words):
        composed.append(words)
        return hydra.compose("config", words)

    with initialise():
        loader = GlobalHydra.instance().config_loader()
        alike = Alike(compose, lambda key: bool(loader.get_group_options(key)))
        for algo in ("fm", "conv"):
            for seed in range(5):
                assert alike([f"algo={algo}", f"seed={seed}", "algo.lam=0.5"]).seed == seed
    assert composed == [["algo=fm"], ["algo=conv"]]


def test_the_api_asks_hydra_once_for_words_that_differ_in_values(monkeypatch):
    asked, right = [], hydra.compose
    monkeypatch.setattr(hydra, "compose", lambda *words, **others: asked.append(words) or right(*words, **others))
    settings.of_dpml.cache_clear()
    found = [settings.Settings(["algo=fm", f"eps={eps}"]).composed() for eps in (1, 2, 3)]
    assert [config.eps for config in found] == [1, 2, 3]
    assert len(asked) == 1


def test_files_are_read_once_and_again_when_they_change(monkeypatch, tmp_path):
    """Whoever gets a configuration may change it."""
    read, right = [], readers.FileConfigSource._read
    conf = shutil.copytree(shipped_folder("conf"), tmp_path / "conf")
    monkeypatch.setattr(readers, "shipped_folder", lambda name: tmp_path / name)
    monkeypatch.setattr(readers.FileConfigSource, "_read", lambda *at: read.append(at[1]) or right(*at))
    source = readers.FileConfigSource("main", str(conf))
    source.load_config("algo/fm").config.lam = 7.0
    assert source.load_config("algo/fm").config != source.load_config("algo/conv").config
    assert source.load_config("algo/fm").config.get("lam") != 7.0
    assert read == ["algo/fm", "algo/conv"]
    (conf / "algo/fm.yaml").write_text((conf / "algo/conv.yaml").read_text() + "# changed\n")
    assert source.load_config("algo/fm").config == source.load_config("algo/conv").config
