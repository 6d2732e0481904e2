"""Image filters: convolution by loops and by slices, Sobel edges, median, histogram equalisation.

Origin: Gonzalez and Woods, *Digital Image Processing*, 4th edition, chapters 3 and 10; tutorials
"image convolution from scratch with NumPy".
"""


def main(np):
    """Filter a synthetic picture."""
    y, x = np.mgrid[0:48, 0:64]
    image = 127 + 60 * np.sin(x / 5.0) * np.cos(y / 7.0)
    image[10:20, 20:40] = 220
    image[((x - 48) ** 2 + (y - 30) ** 2) < 64] = 30

    def gaussian(size, sigma):
        axis = np.arange(size) - size // 2
        kernel = np.exp(-(axis[:, None] ** 2 + axis[None, :] ** 2) / (2 * sigma**2))
        return kernel / kernel.sum()

    def by_pixels(image, kernel):
        m = kernel.shape[0] // 2
        padded = np.pad(image, m, mode="edge")
        out = np.zeros_like(image)
        for i in range(image.shape[0]):
            for j in range(image.shape[1]):
                out[i, j] = np.sum(padded[i : i + 2 * m + 1, j : j + 2 * m + 1] * kernel)
        return out

    def by_slices(image, kernel):
        m = kernel.shape[0] // 2
        padded = np.pad(image, m, mode="edge")
        out = np.zeros(image.shape)
        for i in range(kernel.shape[0]):
            for j in range(kernel.shape[1]):
                out += kernel[i, j] * padded[i : i + image.shape[0], j : j + image.shape[1]]
        return out

    def median3(image):
        padded = np.pad(image, 1, mode="reflect")
        h, w = image.shape
        stack = np.stack([padded[i : i + h, j : j + w] for i in range(3) for j in range(3)])
        return np.median(stack, axis=0)

    blurred = by_slices(image, gaussian(5, 1.2))
    slow = by_pixels(image[:24, :32], gaussian(3, 0.8))
    sobel = np.array([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gx, gy = by_slices(blurred, sobel), by_slices(blurred, sobel.T)
    edges = np.hypot(gx, gy)
    mask = edges > 0.5 * edges.max()
    grey = np.clip(image, 0, 255).astype(np.uint8)
    histogram = np.bincount(grey.ravel(), minlength=256)
    cumulative = histogram.cumsum()
    lookup = np.round(255 * (cumulative - cumulative.min()) / (grey.size - cumulative.min()))
    equalised = lookup.astype(np.uint8)[grey]
    return {
        "blurred": blurred,
        "slow": slow,
        "edges": edges,
        "edge pixels": np.count_nonzero(mask),
        "median": median3(image),
        "equalised": equalised,
    }
