"""Numerical gradients, Newton's method in several dimensions, gradient descent, bisection.

Origin: Nocedal and Wright, *Numerical Optimization*, 2nd edition, chapters 3 and 8 (finite
differences, Rosenbrock's function); Burden and Faires, *Numerical Analysis*, section 10.2.
"""


def main(np):
    """Minimise Rosenbrock's function and solve three nonlinear equations."""

    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def gradient(f, x, h=1e-6):
        g = np.zeros_like(x)
        for i in range(x.size):
            e = np.zeros_like(x)
            e[i] = h
            g[i] = (f(x + e) - f(x - e)) / (2 * h)
        return g

    def hessian(f, x, h=1e-4):
        n = x.size
        H = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                ei, ej = np.zeros(n), np.zeros(n)
                ei[i] = h
                ej[j] = h
                H[i, j] = (f(x + ei + ej) - f(x + ei - ej) - f(x - ei + ej) + f(x - ei - ej)) / (
                    4 * h * h
                )
        return H

    x = np.array([-1.2, 1.0, 0.8])
    values = []
    for _ in range(25):
        g = gradient(rosenbrock, x)
        step = np.linalg.solve(hessian(rosenbrock, x), -g)
        t = 1.0
        while t > 1e-4 and rosenbrock(x + t * step) > rosenbrock(x) + 1e-4 * t * np.dot(g, step):
            t *= 0.5
        x = x + t * step
        values.append(rosenbrock(x))

    def equations(v):
        x, y, z = v
        return np.array(
            [
                3 * x - np.cos(y * z) - 0.5,
                x**2 - 81 * (y + 0.1) ** 2 + np.sin(z) + 1.06,
                np.exp(-x * y) + 20 * z + (10 * np.pi - 3) / 3,
            ]
        )

    def jacobian(f, v, h=1e-7):
        base = f(v)
        J = np.zeros((len(base), len(v)))
        for j in range(len(v)):
            w = v.copy()
            w[j] += h
            J[:, j] = (f(w) - base) / h
        return J

    v = np.array([0.1, 0.1, -0.1])
    for _ in range(10):
        v = v - np.linalg.solve(jacobian(equations, v), equations(v))

    low, high = np.float64(0.0), np.float64(2.0)
    for _ in range(50):
        middle = 0.5 * (low + high)
        if np.cos(middle) - middle > 0:
            low = middle
        else:
            high = middle
    return {
        "minimum": x,
        "value": values[-1],
        "root": v,
        "residual": np.abs(equations(v)).max(),
        "bisection": low,
    }


#: Results near zero, compared by their absolute difference.
ABSOLUTE = {"value": 1e-9, "residual": 1e-9, "minimum": 1e-6}
