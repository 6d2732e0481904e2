"""What setup.cfg cannot say: the rows that `cudamath bench` measures go into the wheel, into a
folder of the package. In the source tree they lie beside it."""

import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py

#: The modules that `benchmarks.run` imports.
MODULES = ("__init__", "format", "rows", "rows_*", "run", "timer", "verify")


class BuildWithRows(build_py):
    """`build_py` that also copies the rows."""

    def run(self):
        super().run()
        if not self.editable_mode:
            target = pathlib.Path(self.build_lib, "cudamath", "bench_tree", "benchmarks")
            target.mkdir(parents=True, exist_ok=True)
            for pattern in MODULES:
                for path in sorted(pathlib.Path("benchmarks").glob(f"{pattern}.py")):
                    shutil.copy(path, target)


setup(cmdclass={"build_py": BuildWithRows})
