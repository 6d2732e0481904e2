"""Ordinary differential equations: adaptive Runge-Kutta-Fehlberg steps, and the leapfrog scheme.

Origin: Press et al., *Numerical Recipes*, 3rd edition, sections 17.1 and 17.2 (step size control);
Hairer, Lubich, Wanner, *Geometric Numerical Integration*, section I.1 (leapfrog, Kepler's problem).
"""


def main(np):
    """Integrate Lotka and Volterra's equations and an orbit."""

    def predators(t, y):
        rabbits, foxes = y[0], y[1]
        return np.array([1.5 * rabbits - rabbits * foxes, rabbits * foxes - 3.0 * foxes])

    def rkf45(f, t, y, end, tolerance):
        h = 0.01
        times, states = [t], [y]
        while t < end:
            h = min(h, end - t)
            k1 = h * f(t, y)
            k2 = h * f(t + h / 4, y + k1 / 4)
            k3 = h * f(t + 3 * h / 8, y + 3 * k1 / 32 + 9 * k2 / 32)
            k4 = h * f(t + 12 * h / 13, y + (1932 * k1 - 7200 * k2 + 7296 * k3) / 2197)
            k5 = h * f(t + h, y + 439 * k1 / 216 - 8 * k2 + 3680 * k3 / 513 - 845 * k4 / 4104)
            k6 = h * f(
                t + h / 2,
                y - 8 * k1 / 27 + 2 * k2 - 3544 * k3 / 2565 + 1859 * k4 / 4104 - 11 * k5 / 40,
            )
            error = np.max(
                np.abs(k1 / 360 - 128 * k3 / 4275 - 2197 * k4 / 75240 + k5 / 50 + 2 * k6 / 55)
            )
            if error <= tolerance:
                t = t + h
                y = (
                    y
                    + 16 * k1 / 135
                    + 6656 * k3 / 12825
                    + 28561 * k4 / 56430
                    - 9 * k5 / 50
                    + 2 * k6 / 55
                )
                times.append(t)
                states.append(y)
            h = h * min(4.0, max(0.1, 0.9 * (tolerance / error) ** 0.2))
        return np.array(times), np.array(states)

    times, states = rkf45(predators, 0.0, np.array([10.0, 5.0]), 8.0, 1e-6)

    def acceleration(x):
        return -x / np.sqrt((x**2).sum()) ** 3

    x, v = np.array([0.5, 0.0]), np.array([0.0, np.sqrt(3.0)])
    h, steps = 0.01, 1000
    path = np.zeros((steps, 2))
    a = acceleration(x)
    for i in range(steps):
        v = v + 0.5 * h * a
        x = x + h * v
        a = acceleration(x)
        v = v + 0.5 * h * a
        path[i] = x
    energy = 0.5 * np.dot(v, v) - 1 / np.linalg.norm(x)
    return {"times": times, "states": states, "path": path, "energy": energy}
