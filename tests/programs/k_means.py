"""k-means, and nearest neighbours.

Origin: MacKay, *Information Theory, Inference, and Learning Algorithms*, chapter 20; Lloyd, 1982.
"""


def main(np):
    """Cluster points on a spiral lattice about four centres."""
    k, per = 4, 60
    golden = np.pi * (3 - np.sqrt(5))
    i = np.arange(per)
    disc = np.stack([np.sqrt(i) * np.cos(i * golden), np.sqrt(i) * np.sin(i * golden)], axis=1) / 4
    offsets = np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 7.0], [7.0, 8.0]])
    points = (offsets[:, None, :] + disc[None, :, :]).reshape(-1, 2)

    centres = points[[3, 20, 70, 200]].copy()
    iterations = 0
    for _ in range(50):
        iterations += 1
        distances = np.sqrt(
            ((points[:, np.newaxis, :] - centres[np.newaxis, :, :]) ** 2).sum(axis=2)
        )
        labels = np.argmin(distances, axis=1)
        new = np.zeros_like(centres)
        for j in range(k):
            members = points[labels == j]
            new[j] = members.mean(axis=0) if len(members) > 0 else centres[j]
        if np.allclose(new, centres):
            break
        centres = new
    inertia = np.sum(np.min(distances, axis=1) ** 2)

    def classify(point, count):
        d = np.linalg.norm(points - point, axis=1)
        nearest = np.argsort(d, kind="stable")[:count]
        votes = np.bincount(labels[nearest], minlength=k)
        return np.argmax(votes)

    grid = np.linspace(-1, 9, 9)
    answers = np.array([[classify(np.array([a, b]), 5) for a in grid] for b in grid])

    # the same by explicit loops, as in a first course
    total = 0.0
    for p in range(0, len(points), 4):
        best = np.inf
        for j in range(k):
            d = (points[p, 0] - centres[j, 0]) ** 2 + (points[p, 1] - centres[j, 1]) ** 2
            if d < best:
                best = d
        total += best
    return {
        "centres": centres,
        "labels": labels,
        "iterations": iterations,
        "inertia": inertia,
        "answers": answers,
        "total": total,
    }
