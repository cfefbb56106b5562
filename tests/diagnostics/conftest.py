"""``pytest tests/diagnostics --update-golden`` writes the texts anew; read them then."""


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the expected texts of diagnostics anew"
    )
