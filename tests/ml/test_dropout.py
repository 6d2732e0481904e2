"""Dropout at the ends of its range of chances; test_random.py has its words, records.py its
derivatives."""

import numpy as np

import cudamath as cm


def test_dropout_by_chances_beyond_the_words(device):
    """A chance too small for 32 bits is not none at all, and drops next to nothing; one of 1 drops
    everything, NaN as well."""
    x = cm.asarray(np.random.default_rng(0).standard_normal(20_000).astype("f4"))
    np.testing.assert_array_equal(
        cm.ml.dropout(x, 1e-12, rng=cm.random.default_rng(3)).to_numpy(), x.to_numpy()
    )
    assert not cm.ml.dropout(x * np.nan, 1.0, rng=cm.random.default_rng(3)).to_numpy().any()
