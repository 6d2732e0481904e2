"""Signal processing: FFT filter, Savitzky and Golay's smoothing, recursive filter, peaks, a
spectrogram.

Origin: Smith, *The Scientist and Engineer's Guide to Digital Signal Processing*, chapters 9 and 19;
Savitzky and Golay, 1964, as in SciPy's cookbook.
"""


def main(np):
    """Clean a noisy tone in several ways."""
    rate = 1000
    t = np.arange(0, 1.5, 1 / rate)
    clean = np.sin(2 * np.pi * 12 * t) + 0.5 * np.sin(2 * np.pi * 33 * t)
    signal = clean + 0.4 * np.sin(2 * np.pi * 251 * t) + 0.3 * np.cos(901 * t**2)

    spectrum = np.fft.rfft(signal)
    frequency = np.fft.rfftfreq(len(signal), 1 / rate)
    spectrum[frequency > 60] = 0
    filtered = np.fft.irfft(spectrum, n=len(signal))

    def savitzky_golay(y, window, order):
        half = window // 2
        b = np.array([[float(k) ** i for i in range(order + 1)] for k in range(-half, half + 1)])
        m = np.linalg.pinv(b)[0]
        first = y[0] - np.abs(y[1 : half + 1][::-1] - y[0])
        last = y[-1] + np.abs(y[-half - 1 : -1][::-1] - y[-1])
        y = np.concatenate((first, y, last))
        return np.convolve(m[::-1], y, mode="valid")

    smooth = savitzky_golay(signal, 21, 3)

    low = np.zeros_like(signal)
    alpha = 0.15
    low[0] = signal[0]
    for i in range(1, len(signal)):
        low[i] = low[i - 1] + alpha * (signal[i] - low[i - 1])

    peaks = []
    for i in range(1, len(filtered) - 1):
        if filtered[i - 1] < filtered[i] > filtered[i + 1] and filtered[i] > 0.8:
            peaks.append(i)

    window = np.hanning(128)
    frames = [signal[i : i + 128] * window for i in range(0, len(signal) - 128, 64)]
    power = np.abs(np.fft.rfft(np.array(frames), axis=1)) ** 2
    strongest = np.argmax(power, axis=1)

    lags = np.correlate(signal - signal.mean(), signal - signal.mean(), mode="full")
    lags = lags[len(signal) - 1 :] / lags[len(signal) - 1]
    return {
        "filtered": filtered,
        "smooth": smooth,
        "low": low,
        "peaks": np.array(peaks),
        "power": power,
        "strongest": strongest,
        "autocorrelation": lags[:200],
        "error": np.sqrt(np.mean((filtered - clean) ** 2)),
    }
