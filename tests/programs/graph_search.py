"""Shortest paths: Floyd and Warshall, Dijkstra with arrays, Bellman and Ford, breadth-first search.

Origin: Cormen, Leiserson, Rivest, Stein, *Introduction to Algorithms*, 3rd edition, chapters 22, 24
and 25.
"""


def main(np):
    """Distances in a graph whose edges follow a rule."""
    n = 60
    weights = np.full((n, n), np.inf)
    for i in range(n):
        weights[i, i] = 0
        for k in (1, 7, 13):
            j = (i * 3 + k) % n
            if i != j:
                weights[i, j] = 1 + (i * k) % 11

    distance = weights.copy()
    for k in range(n):
        distance = np.minimum(distance, distance[:, k, None] + distance[None, k, :])

    small = weights[:16, :16].copy()
    for k in range(16):
        for i in range(16):
            for j in range(16):
                if small[i, k] + small[k, j] < small[i, j]:
                    small[i, j] = small[i, k] + small[k, j]

    def dijkstra(source):
        dist = np.full(n, np.inf)
        previous = np.full(n, -1)
        visited = np.zeros(n, dtype=bool)
        dist[source] = 0
        for _ in range(n):
            u = np.argmin(np.where(visited, np.inf, dist))
            if np.isinf(dist[u]):
                break
            visited[u] = True
            for v in np.flatnonzero(np.isfinite(weights[u])):
                if not visited[v] and dist[u] + weights[u, v] < dist[v]:
                    dist[v] = dist[u] + weights[u, v]
                    previous[v] = u
        return dist, previous

    dist, previous = dijkstra(0)
    path = [n - 1]
    while previous[path[-1]] >= 0:
        path.append(int(previous[path[-1]]))

    edges = [(int(i), int(j)) for i, j in np.argwhere(np.isfinite(weights)) if i != j]
    bellman = np.full(n, np.inf)
    bellman[0] = 0
    for _ in range(8):
        for i, j in edges:
            if bellman[i] + weights[i, j] < bellman[j]:
                bellman[j] = bellman[i] + weights[i, j]

    level = np.full(n, -1)
    level[0] = 0
    queue = [0]
    while queue:
        u = queue.pop(0)
        for v in np.nonzero(weights[u] < np.inf)[0]:
            if level[v] < 0:
                level[v] = level[u] + 1
                queue.append(v)
    return {
        "distance": distance,
        "small": small,
        "dijkstra": dist,
        "path": np.array(path),
        "bellman": bellman,
        "level": level,
    }
