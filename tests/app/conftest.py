"""The command as a user calls it."""

import sys

import pytest

from carom.app import command as cli


@pytest.fixture
def carom_does(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder: its exit code, what it says, and its messages."""
    monkeypatch.chdir(tmp_path)

    def done(*arguments):
        monkeypatch.setattr(sys, "argv", ["carom", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        code = left.value.code
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return (0 if code is None else code), said.out, said.err

    return done
