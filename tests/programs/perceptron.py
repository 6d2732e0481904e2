"""The perceptron, logistic regression by gradient descent, and a small network.

Origin: Raschka and Mirjalili, *Python Machine Learning*, chapters 2 and 3; Nielsen, *Neural
Networks and Deep Learning*, chapter 1.
"""


def main(np):
    """Learn two separable clouds, and the exclusive or."""
    m = 50
    k = np.arange(m)
    left = np.column_stack([1 + np.cos(k * 1.7) * 0.6, 1 + np.sin(k * 2.3) * 0.6])
    right = np.column_stack([3 + np.cos(k * 1.1) * 0.6, 2.5 + np.sin(k * 1.9) * 0.6])
    X = np.vstack((left, right))
    y = np.where(np.arange(2 * m) < m, -1, 1)

    w = np.zeros(1 + X.shape[1])
    errors = []
    for _ in range(15):
        wrong = 0
        for xi, target in zip(X, y, strict=True):
            prediction = np.where(np.dot(xi, w[1:]) + w[0] >= 0.0, 1, -1)
            update = 0.1 * (target - prediction)
            w[1:] += update * xi
            w[0] += update
            wrong += int(update != 0.0)
        errors.append(wrong)

    def sigmoid(z):
        return 1.0 / (1.0 + np.exp(-z))

    labels = (y > 0).astype(float)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    Z = (X - mean) / deviation
    theta, bias = np.zeros(2), 0.0
    costs = []
    for _ in range(400):
        p = sigmoid(Z @ theta + bias)
        gradient = Z.T @ (p - labels) / len(labels)
        theta -= 0.5 * gradient
        bias -= 0.5 * (p - labels).mean()
        costs.append(-np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p)))
    accuracy = np.mean((sigmoid(Z @ theta + bias) > 0.5) == (labels == 1))

    inputs = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    wanted = np.array([[0.0], [1.0], [1.0], [0.0]])
    W1 = np.array([[0.5, -0.6, 0.8], [0.4, 0.9, -0.7]])
    b1 = np.zeros((1, 3))
    W2 = np.array([[0.3], [-0.8], [0.6]])
    b2 = np.zeros((1, 1))
    for _ in range(500):
        hidden = np.tanh(inputs @ W1 + b1)
        output = sigmoid(hidden @ W2 + b2)
        delta = output - wanted
        back = (delta @ W2.T) * (1 - hidden**2)
        W2 -= 0.5 * hidden.T @ delta
        b2 -= 0.5 * delta.sum(axis=0, keepdims=True)
        W1 -= 0.5 * inputs.T @ back
        b1 -= 0.5 * back.sum(axis=0, keepdims=True)
    return {
        "w": w,
        "errors": np.array(errors),
        "theta": theta,
        "costs": np.array(costs),
        "accuracy": accuracy,
        "xor": output,
    }
