"""The bootstrap and a permutation test.

Origin: Efron and Tibshirani, *An Introduction to the Bootstrap*, chapters 2, 13 and 15 (the mouse
data); VanderPlas, "Statistics for Hackers".
"""

#: Tolerances of results that depend on the generator: five standard deviations over seeds.
STATISTICS = {"interval": 9.0, "standard error": 2.8, "p": 0.066, "correlation": 0.071}


def main(np):
    """Intervals of a difference of means and of a correlation."""
    treated = np.array([94.0, 197, 16, 38, 99, 141, 23])
    control = np.array([52.0, 104, 146, 10, 51, 30, 40, 27, 46])
    lsat = np.array([576.0, 635, 558, 578, 666, 580, 555, 661, 651, 605, 653, 575, 545, 572, 594])
    gpa = np.array(
        [3.39, 3.30, 2.81, 3.03, 3.44, 3.07, 3.00, 3.43, 3.36, 3.13, 3.12, 2.74, 2.76, 2.88, 2.96]
    )
    rng = np.random.default_rng(3)
    n = 1500
    difference = treated.mean() - control.mean()

    means = np.zeros(n)
    for b in range(n):
        sample = treated[rng.integers(0, len(treated), len(treated))]
        means[b] = sample.mean()
    interval = np.percentile(means, [5, 95])
    standard_error = means.std(ddof=1)

    together = np.concatenate([treated, control])
    larger = 0
    for _ in range(n):
        shuffled = rng.permutation(together)
        if shuffled[:7].mean() - shuffled[7:].mean() >= difference:
            larger += 1

    correlations = []
    for _ in range(300):
        i = rng.integers(0, 15, size=15)
        correlations.append(np.corrcoef(lsat[i], gpa[i])[0, 1])

    jackknife = np.array([np.delete(treated, i).mean() for i in range(len(treated))])
    m = len(treated)
    spread = np.sqrt((m - 1) / m * np.sum((jackknife - jackknife.mean()) ** 2))
    return {
        "difference": difference,
        "interval": interval,
        "standard error": standard_error,
        "p": larger / n,
        "correlation": np.median(np.array(correlations)),
        "jackknife": spread,
    }
