"""The papers' claims as data: what is said, in our words, and the test that decides it. One module per paper."""

from dpml.claims import hamm2016, imtiaz2019, kang2019, rajkumar2012

CLAIMS = {claim.id: claim for paper in (imtiaz2019, hamm2016, rajkumar2012, kang2019) for claim in paper.CLAIMS}
