"""Dynamic programming: edit distance, knapsack, longest common subsequence, alignment, Viterbi.

Origin: Cormen, Leiserson, Rivest, Stein, *Introduction to Algorithms*, chapter 15; Durbin et al.,
*Biological Sequence Analysis*, chapters 2 and 3 (the occasionally dishonest casino).
"""


def main(np):
    """Compare two words and two sequences, pack a bag, find the loaded dice."""

    def levenshtein(a, b):
        D = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
        D[:, 0] = np.arange(len(a) + 1)
        D[0, :] = np.arange(len(b) + 1)
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                cost = 0 if a[i - 1] == b[j - 1] else 1
                D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + cost)
        return D[len(a), len(b)]

    def needleman_wunsch(a, b, match=1, mismatch=-1, gap=-2):
        S = np.zeros((len(a) + 1, len(b) + 1))
        S[:, 0] = gap * np.arange(len(a) + 1)
        S[0, :] = gap * np.arange(len(b) + 1)
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                diagonal = S[i - 1, j - 1] + (match if a[i - 1] == b[j - 1] else mismatch)
                S[i, j] = max(diagonal, S[i - 1, j] + gap, S[i, j - 1] + gap)
        i, j, aligned = len(a), len(b), 0
        while i > 0 and j > 0:
            score = match if a[i - 1] == b[j - 1] else mismatch
            if S[i, j] == S[i - 1, j - 1] + score:
                i, j = i - 1, j - 1
                aligned += 1
            elif S[i, j] == S[i - 1, j] + gap:
                i -= 1
            else:
                j -= 1
        return S[-1, -1], aligned

    def knapsack(weights, values, capacity):
        best = np.zeros(capacity + 1)
        for w, v in zip(weights, values, strict=True):
            new = best.copy()
            new[w:] = np.maximum(best[w:], best[:-w] + v)
            best = new
        return best

    def viterbi(observations, start, transition, emission):
        n, states = len(observations), len(start)
        V = np.zeros((n, states))
        back = np.zeros((n, states), dtype=int)
        V[0] = np.log(start) + np.log(emission[:, observations[0]])
        for t in range(1, n):
            for s in range(states):
                scores = V[t - 1] + np.log(transition[:, s])
                back[t, s] = np.argmax(scores)
                V[t, s] = np.max(scores) + np.log(emission[s, observations[t]])
        path = [int(np.argmax(V[-1]))]
        for t in range(n - 1, 0, -1):
            path.append(int(back[t, path[-1]]))
        return np.array(path[::-1]), np.max(V[-1])

    first = "intention is half of the execution of a plan"
    second = "execution of the plan is half of an intention"
    dna = "GATTACAGATTACACCGTTAGCATGCATTA", "GCATGCUGATTACACCTTTAGGCATGATA"
    score, aligned = needleman_wunsch(*dna)
    weights, values = [3, 4, 5, 9, 14, 7, 8, 11], [3.0, 4.0, 4.5, 10.0, 15.0, 7.5, 8.0, 12.5]
    best = knapsack(weights, values, 40)
    rolls = (np.arange(150) ** 2 * 7 + np.arange(150) // 3) % 6
    rolls[60:95] = 5
    start = np.array([0.5, 0.5])
    transition = np.array([[0.95, 0.05], [0.1, 0.9]])
    emission = np.array([[1 / 6] * 6, [0.1, 0.1, 0.1, 0.1, 0.1, 0.5]])
    path, likelihood = viterbi(rolls, start, transition, emission)
    return {
        "distance": levenshtein(first, second),
        "score": score,
        "aligned": aligned,
        "best": best,
        "path": path,
        "likelihood": likelihood,
    }
