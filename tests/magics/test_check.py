"""`%check`: what stands on the line is handed on, findings appear as they come, and the check comes back."""

import pytest
from gibbsite_magics import show
from gibbsite_magics.completion import candidates


def test_a_check_of_a_cell(shell, capsys, tmp_path):
    shell.run_line_magic("config", "Gibbsite.show_graph = False")
    shell.run_line_magic("config", "Gibbsite.prepare = False")
    shell.run_cell_magic("model", "m(y=[1.0, 2.0])", "a ~ Normal(0, 1)\ny ~ Normal(a * ones(2), 0.5)\n")
    check = shell.run_line_magic("check", f"m --seconds 0 -s 3 --report {tmp_path / 'm.html'}")
    assert check.seed == 3 and check.seconds == 0 and check.status == "finished"
    told = capsys.readouterr().out
    assert "open      calibration: not reached within 0 seconds" in told and told.count("calibration") == 1
    assert "<b>check of m</b>" in (tmp_path / "m.html").read_text()
    later = shell.run_line_magic("check", "m --seconds 1000 --background")
    later.stop()
    assert later.wait(120).status == "stopped"
    assert candidates(shell, "%check m --s") == ["--seconds", "--seed"]


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        ("kept = %check m --seconds 0", "Check"),
        ("%check m --seconds 0", "Line"),
        ("%check m --seconds 0 --background", "Check"),
    ],
)
def test_the_findings_stay_in_the_cell_whoever_shows_them(shell, monkeypatch, cell, left):
    shell.run_line_magic("config", "Gibbsite.show_graph = False")
    shell.run_line_magic("config", "Gibbsite.prepare = False")
    shell.run_cell_magic("model", "m(y=[1.0, 2.0])", "a ~ Normal(0, 1)\ny ~ Normal(a * ones(2), 0.5)\n")
    seen = []

    class Handle:
        def update(self, shown):
            seen.append(shown)

    monkeypatch.setattr(show, "has_front_end", lambda shell: True)
    monkeypatch.setattr(show, "display", lambda check, display_id: Handle())
    done = shell.run_cell(cell)
    check = shell.user_ns["kept"] if done.result is None else done.result
    check.wait(60)  # by then those who watch know the end
    # an unassigned check is the cell's own output as well, and is not to stand there twice
    assert type(seen[-1]).__name__ == left and (left == "Check" or not seen[-1])
