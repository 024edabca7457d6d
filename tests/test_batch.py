"""Runs without a notebook: `python -m gibbsite sample`, and `watch` from another process."""

import re
import shutil
import socket
import struct
import urllib.error
import urllib.request
from threading import Thread

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.__main__ import main
from gibbsite.batch import made_model
from gibbsite.errors import CheckpointError, GibbsiteError, OptionError, UnknownNameError
from gibbsite.sampling.read_only import outside
from gibbsite.storage import checkpoint
from gibbsite.watching import Watch, served

FIT = """
import numpy as np
import gibbsite as gb
import numpyro, numpyro.distributions as dist

def line(x, y, scale=1.0):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(a * x, scale), obs=y)

three = gb.model(line, np.arange(3.0), np.ones(3))
limit = 3
"""
SHORT = ["-n", "60", "-w", "10", "-c", "2", "--every", "0"]


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch")
    (folder / "fit_of_a_line.py").write_text(FIT)
    np.savez(folder / "data.npz", x=np.arange(4.0), y=np.ones(4), other=np.ones(2))
    (folder / "data.csv").write_text("x,y,name\n0,1,p\n1,1,q\n2,1,r\n3,1,s\n")
    return folder


def test_a_line_starts_a_run_and_goes_on_with_it(fit, tmp_path, capsys):
    line = [
        "sample",
        f"{fit}/fit_of_a_line.py:three",
        "--store",
        f"{tmp_path}/run",
        "--resume",
        "auto",
        *SHORT,
    ]
    assert main(line) == 0
    said = capsys.readouterr().out.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d .", one) for one in said[:3])
    assert "latent a; observed y" in said[0] and any("finished" in one for one in said)
    assert main([*line[:-6], "-n", "90", *SHORT[2:]]) == 0
    assert "90 of 90 draws" in capsys.readouterr().out
    assert gb.load(tmp_path / "run").draws["a"].shape == (2, 90)
    assert main([*line, "--seed", "5"]) == 1
    assert "seed=0" in capsys.readouterr().err


def test_a_line_stores_at_a_url(fit, tmp_path, monkeypatch):
    """And not in a folder of this machine that is called `memory:`."""
    monkeypatch.chdir(tmp_path)
    url = f"memory://{tmp_path.name}/run"
    assert main(["sample", f"{fit}/fit_of_a_line.py:three", "--store", url, *SHORT]) == 0
    assert gb.load(url).status == "finished" and not list(tmp_path.iterdir())


def test_data_by_name(fit, tmp_path):
    target = f"{fit}/fit_of_a_line.py:line"
    for file in ("data.npz", "data.csv"):
        model = made_model(target, [fit / file], ["scale=2.5"])
        assert model.sites["y"].shape == (4,) and model.kwargs["scale"] == 2.5
    again = made_model(f"{fit}/fit_of_a_line.py:three", [], ["scale=2.5"])
    assert again.sites["y"].shape == (3,) and again.kwargs["scale"] == 2.5


@pytest.mark.parametrize(
    ("target", "files", "said", "words"),
    [
        ("three", [], [], "MODULE:NAME"),
        ("nothing.py:three", [], [], "no file"),
        ("no_such_module:three", [], [], "no module 'no_such_module'"),
        ("numpyro.no_such_module:three", [], [], "no module 'numpyro.no_such_module'"),
        ("{fit}:tree", [], [], "did you mean 'three'"),
        ("{fit}:limit", [], [], "neither a model nor a function"),
        ("{fit}:line", ["data.npz"], ["sale=1"], "did you mean 'scale'"),
        ("{fit}:line", ["data.npz"], ["scale"], "NAME=VALUE"),
        ("{fit}:line", ["fit_of_a_line.py"], [], ".npz and .csv"),
        ("{fit}:line", ["missing.npz"], [], "cannot be read"),
        ("{fit}:line", [], ["x=1.0"], "wants the argument y"),
    ],
)
def test_what_is_wrong_is_told(fit, target, files, said, words):
    target = target.format(fit=f"{fit}/fit_of_a_line.py")
    with pytest.raises(GibbsiteError, match=re.escape(words)):
        made_model(target, [fit / file for file in files], said)


def test_nothing_in_a_data_file_is_executed(fit, tmp_path):
    np.savez(tmp_path / "bad.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(GibbsiteError, match="cannot be read"):
        made_model(f"{fit}/fit_of_a_line.py:line", [tmp_path / "bad.npz"])


@pytest.fixture(scope="module")
def going(fit, tmp_path_factory):
    """A run that goes on in this process, as another one would see it."""
    model = made_model(f"{fit}/fit_of_a_line.py:three")
    folder = tmp_path_factory.mktemp("watch") / "a <run>"
    run = model.start(draws=10**8, warmup=20, chains=2, chunk=50, store=folder)
    while not (folder / checkpoint.FILE).exists() or outside(folder).run.kept.sampled.steps < 200:
        pass
    yield run, folder
    run.stop()
    run.wait()


def fetched(address):
    with urllib.request.urlopen(address) as page:
        return page.read().decode()


def test_a_run_is_watched_from_outside(going, tmp_path):
    run, folder = going
    seen = outside(folder)
    assert seen.run.status == "sampling" and seen.writer is not None and seen.age < 60
    np.testing.assert_array_equal(
        seen.run.draws["a"], run.draws["a"][:, : seen.run.kept.sampled.steps], strict=True
    )
    server, address = served(Watch(folder))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        page = fetched(address)
        assert "It goes on in process" in page and "sampling" in page and 'http-equiv="refresh"' in page
        assert "<svg" in page and "a &lt;run&gt;" in page and "<script" not in page
        for wrong in (address.rpartition("/")[0][:-1] + "x/", address + "7", address + "../x"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetched(wrong)
        assert server.server_address[0] == "127.0.0.1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert run.going  # it did not notice


def test_a_page_in_a_file_and_words(going, tmp_path, capsys):
    run, _ = going
    copy = tmp_path / "copy"
    run.save(copy)
    assert main(["watch", str(copy), "--html", str(tmp_path / "page.html")]) == 0
    assert "No process goes on with it" in (tmp_path / "page.html").read_text()
    assert main(["watch", str(copy), "--text"]) == 0
    assert "stopped early, draws kept" in capsys.readouterr().out
    before = outside(copy)
    assert outside(copy, before) is before  # nothing is read again without a commit
    (copy / "draws.zarr" / "posterior" / "a" / "c" / "0" / "0").unlink()
    with pytest.raises(CheckpointError, match="posterior/a"):
        Watch(copy)
    assert main(["watch", str(tmp_path / "nothing")]) == 1
    shutil.rmtree(copy)


def test_mistakes_on_the_line_are_told_in_a_sentence(going, tmp_path, capsys):
    _, folder = going
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for options, said in (
            (["--port", str(taken.getsockname()[1])], "port: .* cannot be served"),
            (["--port", "99999"], "port: 99999 is none"),
            (["--port", "-1"], "port: -1 is none"),
            (["--html", str(tmp_path / "no" / "x.html")], "cannot be written: No such file"),
            (["--html", str(tmp_path)], "cannot be written: Is a directory"),
            (["--every", "nan"], "every must be a number of seconds"),
            (["--every", "inf"], "every must be a number of seconds"),
            (["--every", "-1"], "every must be a number of seconds"),
        ):
            assert main(["watch", str(folder), *options]) == 1
            err = capsys.readouterr().err
            assert re.search(said, err) and err.count("\n") == 1, err
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}*.new"))
    assert main(["watch", "s3://bucket/run", "--text"]) == 1
    assert "'s3://bucket/run' is no folder of this machine; gibbsite.load" in capsys.readouterr().err
    with pytest.raises(OptionError, match="no folder of this machine"):
        gb.runs("memory://runs")


def test_the_page_guards_itself_and_hang_ups_are_silent(going, capfd):
    _, folder = going
    server, address = served(Watch(folder))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        with urllib.request.urlopen(address) as page:
            assert "default-src 'none'" in page.headers["Content-Security-Policy"]
            assert page.headers["X-Content-Type-Options"] == "nosniff"
        for _ in range(3):
            with socket.create_connection(server.server_address[:2]) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(f"GET /{address.split('/')[3]}/ HTTP/1.0\r\n\r\n".encode())
        fetched(address)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert "Traceback" not in capfd.readouterr().err


def test_names_of_what_is_not_there(fit):
    with pytest.raises(UnknownNameError):
        made_model(f"{fit}/fit_of_a_line.py:nobody")
