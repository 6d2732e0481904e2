"""Array math: op cards by family. Everything here is re-exported by the package."""
