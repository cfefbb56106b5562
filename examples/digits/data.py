"""Handwritten digits that ship with scikit-learn: 1797 images of 8 x 8 pixels, split for good."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and held-out images (float32, N x 1 x 8 x 8, in 0 to 1), then the labels of both."""
    digits = load_digits()
    images = (digits.images / 16.0).astype("float32")[:, None, :, :]
    labels = digits.target.astype("int64")
    train, held_out, train_labels, held_out_labels = train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return train, held_out, train_labels, held_out_labels
