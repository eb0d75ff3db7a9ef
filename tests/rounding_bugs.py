"""Rounding bugs of `Rows` and of sums of coefficients, as somebody could write them: each changes the right method."""

import numpy as np

from dpml.data.preprocess import distinct


def cancelling(right):
    """Sums are of terms near 1, which are taken away again: ``sum tanh - sum 1``, in single precision."""

    def gradient(self, w):
        half, slopes = whole(self, w)
        return self.common * (half.T @ (slopes + 1) - half.sum(axis=0)[:, None]).T.astype(float)

    return gradient


def whole(rows, w):
    """All halves (n, d), and their slopes (n, B)."""
    slopes = [slopes.reshape(-1, len(w)) for _, _, slopes in rows.parts(w)]
    return rows.half.reshape(-1, rows.half.shape[-1]), np.concatenate(slopes)


def in_single(right):
    """All is added up in single precision, row after row."""

    def gradient(self, w):
        half, slopes = whole(self, w)
        terms = half[:, :, None] * slopes[:, None]
        return self.common * np.add.accumulate(terms, axis=0)[-1].T.astype(float)

    return gradient


def cut_too_low(right):
    """The slope is cut where tanh is 1 - 2 clip, rounded to single precision: up to 3e-8 too low, whatever the clip."""

    def bend(self, h, labels):
        np.tanh(h, out=h)
        np.maximum(h, np.float32(1 - float(self.limit)), out=h)
        h -= 1

    return bend


def folded(right):
    """Equal rows are one row with a weight, where that leaves at most 95 of 100: sums are then in another order."""

    def of(loss, X, y, v=None, dtype=np.float32, clip=None, classes=1):
        first, _, counts = distinct(X, y)
        if v is not None or len(first) > 0.95 * len(X):
            return right(loss, X, y, v, dtype, clip, classes)
        return right(loss, X[first], y[first], counts.astype(float), dtype, clip, classes)

    return of


def on_the_rows_own_grid(right):
    """The sums are rounded to a thousandth of the longest of them, "which is fine enough"."""

    def total(self, *at):
        exact = right(self, *at)
        step = np.abs(exact).max() / 1000
        return step * np.rint(exact / step)

    return total
