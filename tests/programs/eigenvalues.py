"""Eigenvalues and linear systems by hand: power iteration, QR algorithm, Gram and Schmidt, Jacobi's
rotations, Gauss's elimination, Cholesky, conjugate gradients.

Origin: Trefethen and Bau, *Numerical Linear Algebra*, lectures 7, 20, 23, 27, 28 and 38; Golub and
Van Loan, *Matrix Computations*, section 8.5.
"""


def main(np):
    """Apply each of them to a symmetric matrix."""
    n = 12
    i = np.arange(1.0, n + 1)
    A = 1 / (i[:, None] + i[None, :] - 1) + np.diag(i)  # Hilbert's, made well conditioned
    b = np.sin(i)

    v = np.ones(n)
    largest = 0.0
    for _ in range(200):
        w = A @ v
        v = w / np.linalg.norm(w)
        largest = v @ A @ v

    def gram_schmidt(A):
        m, n = A.shape
        Q, R = np.zeros((m, n)), np.zeros((n, n))
        for j in range(n):
            u = A[:, j].copy()
            for k in range(j):
                R[k, j] = np.dot(Q[:, k], u)
                u -= R[k, j] * Q[:, k]
            R[j, j] = np.sqrt(np.sum(u**2))
            Q[:, j] = u / R[j, j]
        return Q, R

    Q, R = gram_schmidt(A)
    B = A.copy()
    for _ in range(120):
        q, r = np.linalg.qr(B)
        B = r @ q

    def jacobi(A):
        A = A.copy()
        for _ in range(4):
            for p in range(n - 1):
                for q in range(p + 1, n):
                    if abs(A[p, q]) < 1e-12:
                        continue
                    theta = (A[q, q] - A[p, p]) / (2 * A[p, q])
                    t = np.sign(theta) / (abs(theta) + np.sqrt(theta**2 + 1))
                    c = 1 / np.sqrt(t**2 + 1)
                    s = t * c
                    rows = A[p].copy(), A[q].copy()
                    A[p], A[q] = c * rows[0] - s * rows[1], s * rows[0] + c * rows[1]
                    columns = A[:, p].copy(), A[:, q].copy()
                    A[:, p] = c * columns[0] - s * columns[1]
                    A[:, q] = s * columns[0] + c * columns[1]
        return np.sort(np.diag(A))

    def gauss(A, b):
        M = np.hstack([A, b.reshape(-1, 1)])
        for k in range(n):
            pivot = k + np.argmax(np.abs(M[k:, k]))
            M[[k, pivot]] = M[[pivot, k]]
            for row in range(k + 1, n):
                M[row, k:] -= M[row, k] / M[k, k] * M[k, k:]
        x = np.zeros(n)
        for k in range(n - 1, -1, -1):
            x[k] = (M[k, -1] - M[k, k + 1 : n] @ x[k + 1 :]) / M[k, k]
        return x

    def cholesky(A):
        L = np.zeros_like(A)
        for r in range(n):
            for c in range(r + 1):
                s = 0.0
                for k in range(c):
                    s += L[r, k] * L[c, k]
                L[r, c] = np.sqrt(A[r, r] - s) if r == c else (A[r, c] - s) / L[c, c]
        return L

    x = np.zeros(n)
    residual = b - A @ x
    direction = residual.copy()
    for _ in range(n):
        alpha = residual @ residual / (direction @ A @ direction)
        x = x + alpha * direction
        new = residual - alpha * (A @ direction)
        direction = new + (new @ new) / (residual @ residual) * direction
        residual = new
        if np.linalg.norm(residual) < 1e-13:
            break
    return {
        "largest": largest,
        "Q": Q,
        "R": R,
        "qr": np.sort(np.diag(B)),
        "jacobi": jacobi(A),
        "gauss": gauss(A, b),
        "cholesky": cholesky(A),
        "conjugate gradients": x,
    }


#: Results near zero, compared by their absolute difference.
ABSOLUTE = {"Q": 1e-9, "R": 1e-9, "conjugate gradients": 1e-9}
