"""
From rows to an attacked release
================================

dpml trains one model on data held by several parties, with differential privacy for every record. This script loads a
data set, computes a guarantee, runs two algorithms, fits an estimator of scikit-learn, and attacks a release.
:doc:`/api` describes every name, and says what is private and what is not.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpml
from dpml.privacy.accountant import Accountant
from dpml.privacy.safe import written

# %%
# A data set
# ----------
#
# Rows lie in the unit ball, as every proof assumes. Labels are -1 and +1.

data = dpml.load("wdbc", seed=0)
print(data.X.shape, data.X_test.shape, "longest row:", np.linalg.norm(data.X, axis=1).max())
data.provenance["preprocessing"]  # the values that were fitted to the rows; no budget accounts for them

# %%
# A guarantee, before any data
# ----------------------------
#
# The CAPE paper claims ε = 1 for its noise. For ten parties, dpml proves a larger ε for the same noise in the view of
# parties that collude with the server. ``calibration="tight"`` adds enough noise for ε = 1 in every view.

setting = {"algo": "capefm", "eps": 1, "delta": 1e-5, "M": 10, "N": 5000, "d": 30}
for calibration in ("published", "tight"):
    for g in dpml.guarantee(calibration=calibration, **setting):
        print(f"{calibration:9}  {g.view:10}  eps={g.eps:.3f}  {g.basis}")

# %%
# A run
# -----
#
# ``dpml.run`` takes the keys of ``dpml-run``, with a value or a list of values for each key. dpml stores results in
# ``results/.cells`` of the current folder, so a repeated call computes nothing.

result = dpml.run(
    dataset="wdbc", algo=["dpgd", "capefm", "nonpriv"], calibration="tight", eps=[0.1, 0.3, 1, 3, 10], seed=[0, 1, 2]
)
result.rows.query("metric == 'accuracy'").head()

# %%
accuracy = result.rows.query("metric == 'accuracy'").groupby(["eps", "algo"])["value"].mean().unstack()
accuracy.plot(logx=True, marker="o", ylabel="test accuracy", title="WDBC, five parties")
plt.show()

# %%
accuracy.round(3)

# %%
# An estimator for your own rows
# ------------------------------
#
# ``bounds`` are ranges that you know without looking at the rows: the people are adults, and a week has 168 hours.
# Without ``bounds``, dpml fits ranges to the rows, which no budget covers, and a ``PrivacyWarning`` says so.

rng = np.random.default_rng(0)
age, hours, income = rng.uniform(18, 90, 20_000), rng.gamma(8, 5, 20_000), rng.lognormal(10, 1, 20_000)
X = np.column_stack([age, hours, income])
y = np.where(0.02 * age + 0.03 * hours + np.log(income) + 0.5 * rng.standard_normal(20_000) > 12.3, "yes", "no")

bounds = [18, 0, 0], [90, 168, 14]  # the income's logarithm
model = dpml.PrivateClassifier(eps=1.0, delta=1e-5, bounds=bounds)

# %%
# In a ``Pipeline``, a step that maps each row separately is harmless. A ``StandardScaler`` is fitted to the private
# rows, which no budget covers.


def log_of_income(X):
    """Map each row separately, so that nothing is fitted."""
    return np.column_stack([X[:, :2], np.log1p(X[:, 2])])


pipeline = make_pipeline(FunctionTransformer(log_of_income), model)
pipeline.fit(X, y)
for g in pipeline[-1].guarantees_:
    print(g)

# %%
# Cross-validation spends a budget in every fold
# ----------------------------------------------
#
# Five folds are five releases, and any given row is used in four releases. The accountant computes the total of four
# releases, which is more than ε = 1. A ledger records all releases, and refuses a release that would exceed its cap.

with dpml.Ledger(Path(tempfile.mkdtemp()) / "people.ledger", cap=3):
    print(cross_val_score(pipeline, X, y, cv=5).round(3))
total = Accountant().add(pipeline[-1].guarantees_[0], times=4).eps(1e-5)
print(f"all five models together: eps = {written(total)} at delta = 1e-5")

# %%
# An attack
# ---------
#
# A proof can be wrong, and so can the code that draws the noise. ``dpml.attack`` (the command ``dpml audit``) attacks
# real releases, on the worst known neighbouring data sets. The value ``attacked`` is a lower bound on ε. If the lower
# bound is above the proven ε, there is a bug.

for finding in dpml.attack(algo="ssp", dataset="wdbc", eps=1, delta=1e-5, M=5, draws=10_000):
    print(f"{finding.view:10} proven {finding.proven:.3f}, attacked {finding.attacked:.3f}: {finding.judgement}")
