"""Option pricing: binomial tree, Monte Carlo with antithetic paths, implicit finite differences.

Origin: Hull, *Options, Futures, and Other Derivatives*, chapters 13, 15, 21; Hilpisch, *Python for
Finance*, chapter 12.
"""

#: Tolerances of results that depend on the generator: five standard deviations over seeds.
STATISTICS = {"european": 0.8, "asian": 0.47}


def main(np):
    """Price a put and a call."""
    s0, strike, rate, sigma, years = 100.0, 105.0, 0.05, 0.2, 1.0

    def binomial_put(steps):
        dt = years / steps
        u = np.exp(sigma * np.sqrt(dt))
        d = 1 / u
        p = (np.exp(rate * dt) - d) / (u - d)
        discount = np.exp(-rate * dt)
        prices = s0 * u ** np.arange(steps, -steps - 1, -2)
        values = np.maximum(strike - prices, 0)
        for _ in range(steps):
            prices = prices[1:] * u
            values = discount * (p * values[:-1] + (1 - p) * values[1:])
            values = np.maximum(values, strike - prices)  # exercised early
        return values[0]

    def tree_by_nodes(steps):
        dt = years / steps
        u = np.exp(sigma * np.sqrt(dt))
        p = (np.exp(rate * dt) - 1 / u) / (u - 1 / u)
        value = np.zeros((steps + 1, steps + 1))
        for j in range(steps + 1):
            value[steps, j] = max(s0 * u ** (2 * j - steps) - strike, 0)
        for i in range(steps - 1, -1, -1):
            for j in range(i + 1):
                value[i, j] = np.exp(-rate * dt) * (
                    p * value[i + 1, j + 1] + (1 - p) * value[i + 1, j]
                )
        return value[0, 0]

    rng = np.random.default_rng(1000)

    def monte_carlo(paths, steps):
        dt = years / steps
        z = rng.standard_normal((steps, paths // 2))
        z = np.concatenate((z, -z), axis=1)
        s = np.zeros((steps + 1, paths))
        s[0] = s0
        for t in range(1, steps + 1):
            s[t] = s[t - 1] * np.exp((rate - 0.5 * sigma**2) * dt + sigma * np.sqrt(dt) * z[t - 1])
        discount = np.exp(-rate * years)
        european = discount * np.maximum(s[-1] - strike, 0).mean()
        asian = discount * np.maximum(s[1:].mean(axis=0) - strike, 0).mean()
        return european, asian

    def implicit_differences(n, steps):
        s = np.linspace(0, 3 * strike, n + 1)
        dt = years / steps
        i = np.arange(1, n)
        a = 0.5 * dt * (rate * i - sigma**2 * i**2)
        b = 1 + dt * (sigma**2 * i**2 + rate)
        c = -0.5 * dt * (rate * i + sigma**2 * i**2)
        A = np.diag(b) + np.diag(a[1:], -1) + np.diag(c[:-1], 1)
        v = np.maximum(s - strike, 0)
        for k in range(1, steps + 1):
            right = v[1:-1].copy()
            top = s[-1] - strike * np.exp(-rate * k * dt)
            right[-1] -= c[-1] * top
            v[1:-1] = np.linalg.solve(A, right)
            v[-1] = top
        return np.interp(s0, s, v)

    european, asian = monte_carlo(10_000, 50)
    return {
        "put": binomial_put(200),
        "call": tree_by_nodes(40),
        "european": european,
        "asian": asian,
        "implicit": implicit_differences(80, 40),
    }
