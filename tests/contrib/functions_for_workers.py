"""Functions that the tests of `popen_pool` call in other processes."""

import os
import time

STARTED = []


def add(a, b=1):
    return a + b


def fail(text):
    raise ValueError(text)


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def die():
    os._exit(3)


def pid():
    return os.getpid()


def note(value):
    STARTED.append(value)


def noted():
    return list(STARTED)
