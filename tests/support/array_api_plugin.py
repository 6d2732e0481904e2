"""A pytest plugin for the array API's own suite: what it draws outside of Hypothesis is the same in
every run."""

import random
import zlib

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    random.seed(zlib.crc32(item.nodeid.encode()))
