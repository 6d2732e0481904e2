"""A Kalman filter that tracks a vehicle by noisy positions, and the smoother behind it.

Origin: Labbe, *Kalman and Bayesian Filters in Python*, chapters 6 and 13; Welch and Bishop,
*An Introduction to the Kalman Filter*.
"""


def main(np):
    """Filter and smooth a track in the plane."""
    dt = 0.1
    F = np.array([[1, 0, dt, 0], [0, 1, 0, dt], [0, 0, 1, 0], [0, 0, 0, 1]])
    H = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0]])
    Q = 0.05 * np.eye(4)
    R = np.diag([0.5, 0.5])

    t = np.arange(0, 20, dt)
    truth = np.column_stack([5 * np.cos(0.3 * t), 3 * np.sin(0.5 * t)])
    noise = 0.5 * np.column_stack([np.sin(137 * t**2), np.cos(211 * t**2)])
    measured = truth + noise

    x, P = np.zeros(4), 10 * np.eye(4)
    states, covariances, predicted = [], [], []
    log_likelihood = 0.0
    for z in measured:
        x = F @ x
        P = F @ P @ F.T + Q
        predicted.append((x, P))
        innovation = z - H @ x
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        x = x + K @ innovation
        P = (np.eye(4) - K @ H) @ P
        log_likelihood += -0.5 * (
            innovation @ np.linalg.solve(S, innovation) + np.log(np.linalg.det(2 * np.pi * S))
        )
        states.append(x)
        covariances.append(P)

    smooth = [states[-1]]
    for k in range(len(states) - 2, -1, -1):
        x_next, P_next = predicted[k + 1]
        C = covariances[k] @ F.T @ np.linalg.inv(P_next)
        smooth.append(states[k] + C @ (smooth[-1] - x_next))
    smooth = np.array(smooth[::-1])
    error = np.sqrt(((smooth[:, :2] - truth) ** 2).sum(axis=1)).mean()
    return {
        "states": np.array(states),
        "smooth": smooth,
        "P": P,
        "log_likelihood": log_likelihood,
        "error": error,
    }
