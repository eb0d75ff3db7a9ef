"""The papers' claims as data: what is said, in our words, and the test that decides it. One module per paper."""

from dpml.papers.hamm2016 import claims as hamm2016
from dpml.papers.imtiaz2019 import claims as imtiaz2019
from dpml.papers.kang2019 import claims as kang2019
from dpml.papers.rajkumar2012 import claims as rajkumar2012

CLAIMS = {claim.id: claim for paper in (imtiaz2019, hamm2016, rajkumar2012, kang2019) for claim in paper.CLAIMS}
