"""Algorithms that make one model of the parties' own, or of their votes, and release it plus noise: pure eps-DP.

Two facts carry every proof; rows have norm at most 1, and R is a mean loss + lam/2 ||w||^2 with minimiser w.

- The minimisers of two such risks lie at most ``max ||grad (R - R')|| / lam`` apart (lam-strong convexity; Chaudhuri et
  al. 2011, Lemma 7). Changing a target a_i by b_i moves the gradient by b_i (x) x_i whatever w is.
- A minimiser is never long (`dpml.optim.logistic.longest_minimiser`).

A solver stops at a gradient of norm `TOLERANCE` or `LOCAL_TOLERANCE`, that over lam from the exact minimiser at most;
every proven sensitivity has this twice, once for each of two neighbours.
"""
