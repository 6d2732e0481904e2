"""The inverse of erf, from which truncated normal numbers are made: the coefficients of its
polynomials, the highest power first. In w = -ln(1 - p^2), erfinv(p) is p times NEAR(w - 2.5) where
w < 5, else p times FAR(sqrt(w) - 3); both contain the factor sqrt(2).

Source: Giles, "Approximating the erfinv function", GPU Computing Gems, 2011.
"""

NEAR = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
FAR = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
