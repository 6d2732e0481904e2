"""PageRank of a small web by power iteration.

Origin: Page, Brin, Motwani, Winograd, "The PageRank Citation Ranking", 1999; Langville and Meyer,
*Google's PageRank and Beyond*, chapter 4.
"""


def main(np):
    """Rank the pages of a web whose links follow a rule."""
    n = 120
    links = np.zeros((n, n))
    for page in range(n):
        for k in range(1, 6):
            target = (page * k + 7 * k * k) % n
            if target != page:
                links[page, target] = 1.0
    links[::17] = 0.0  # pages without links
    out = links.sum(axis=1)
    transition = np.zeros((n, n))
    for page in range(n):
        if out[page] > 0:
            transition[page] = links[page] / out[page]
        else:
            transition[page] = 1.0 / n
    damping = 0.85
    rank = np.ones(n) / n
    iterations = 0
    while True:
        new = damping * (rank @ transition) + (1 - damping) / n
        change = np.abs(new - rank).sum()
        rank = new
        iterations += 1
        if change < 1e-12:
            break
    order = np.argsort(-rank, kind="stable")
    return {"rank": rank, "best": rank[order[:10]], "iterations": iterations}
