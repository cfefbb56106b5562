"""Counters of the hardware: a library that stands in for PAPI, and none at all."""

import ctypes.util

import pytest

from tilesmith.contrib import cc
from tilesmith.runtime import cpu, module_from_functions
from tilesmith.runtime.papi import PAPIMetricCollector
from tilesmith.runtime.profiling import DeviceWrapper, profile_function
from tilesmith.support.errors import ConfigError, ExecutionError, UnsupportedError

STAND_IN = """
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif
static int count = 0, running = 0;
int PAPI_library_init(int version) { return VERSION; }
char *PAPI_strerror(int code) { return "it runs already"; }
int PAPI_create_eventset(int *set) { *set = 5; count = 0; return 0; }
int PAPI_add_named_event(int set, const char *name) {
  if (strcmp(name, "none") == 0) return -7;
  ++count; return 0;
}
int PAPI_start(int set) { return running++ ? -10 : 0; }
int PAPI_stop(int set, long long *values) {
  running = 0;
  for (int i = 0; i < count; ++i) values[i] = 100 * (i + 1);
  return 0;
}
#ifdef __cplusplus
}
#endif
"""
pytestmark = pytest.mark.skipif(cc.get_cc() is None, reason="no C compiler")


@pytest.fixture
def papi(tmp_path, monkeypatch):
    """Installs a stand-in of a version."""

    def install(version):
        source, library = tmp_path / "papi.c", tmp_path / f"libpapi{version}.so"
        source.write_text(STAND_IN.replace("VERSION", str(version)))
        cc.create_shared(str(library), [str(source)])
        monkeypatch.setattr(ctypes.util, "find_library", lambda name: str(library))

    return install


def test_events_are_counted(papi):
    papi(7 << 24 | 1 << 16)
    collector = PAPIMetricCollector()
    module = module_from_functions({"main": lambda x: x + 1})
    profile = profile_function(module, cpu(), [collector], "main", 0)
    metrics = profile(1)
    assert metrics["PAPI_TOT_CYC"].count == 100 and metrics["PAPI_TOT_INS"].count == 200
    assert profile(1).keys() == metrics.keys() == {"Duration (us)", *list(metrics)[1:]}


def test_events_that_users_name(papi):
    papi(6 << 24)
    device = DeviceWrapper(cpu())
    collector = PAPIMetricCollector({device: ["perf::CACHE-MISSES"]})
    collector.init([device])
    assert collector.start(cpu(1)) is None
    token = collector.start(cpu())
    with pytest.raises(ExecutionError, match="it runs already"):
        collector.start(cpu())
    assert collector.stop(token)["perf::CACHE-MISSES"].count == 100
    with pytest.raises(ConfigError, match="does not count the event 'none'"):
        PAPIMetricCollector({device: ["none"]}).init([device])


def test_what_is_missing(papi, monkeypatch):
    papi(1)
    with pytest.raises(UnsupportedError, match="none of the known versions"):
        PAPIMetricCollector()
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    with pytest.raises(UnsupportedError, match="PAPI.*is not installed"):
        PAPIMetricCollector()
