from tilesmith.support.progress import progress, status


def test_silent_where_nobody_watches(capfd):
    with progress("compiling", enabled=False) as report:
        report(1, 2, "kernel")
    with status("linking", enabled=False) as update:
        update("still linking")
    assert capfd.readouterr() == ("", "")


def test_shown_on_standard_error_only(capfd):
    with progress("compiling", enabled=True) as report:
        report(1, 2, "kernel")
    with status("linking", enabled=True) as update:
        update("still linking")
    assert capfd.readouterr().out == ""
