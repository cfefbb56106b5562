"""What a worker does before the first kernel comes."""

from tilesmith.driver import kernels, worker


def test_a_small_kernel_warms_up(monkeypatch):
    compiled = []
    monkeypatch.setattr(
        worker, "compile_job", lambda *job: compiled.append(kernels.compile_job(*job))
    )
    worker.warm_up()
    assert len(compiled) == 1 and len(compiled[0]) > 100
