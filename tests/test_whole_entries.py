"""The compile cache that the processes of a suite share: no process sees a part of an entry."""

import os
import zlib

import pytest
from jax._src.lru_cache import LRUCache


@pytest.fixture
def cache(tmp_path):
    return LRUCache(str(tmp_path), max_size=-1)


def test_an_entry_has_its_name_when_it_is_whole(cache, monkeypatch):
    entry, seen, real = zlib.compress(os.urandom(10_000)), [], os.replace

    def renamed(old, new):
        seen.append((os.path.getsize(old), os.path.exists(new), cache.get("k")))
        real(old, new)

    monkeypatch.setattr(os, "replace", renamed)
    cache.put("k", entry)
    assert seen == [(len(entry), False, None)] and cache.get("k") == entry
    assert [p.name for p in cache.path.iterdir()] == ["k-cache"]


def test_what_a_killed_process_left_is_none_and_is_written_again(cache):
    entry = zlib.compress(b"compiled" * 100)
    (cache.path / "k-cache").write_bytes(entry[:-5])
    assert cache.get("k") is None
    cache.put("k", entry)
    assert cache.get("k") == entry
