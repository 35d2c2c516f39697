"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from verblint.fixes.write import write_whole


def test_a_new_file_is_written(tmp_path: Path) -> None:
    write_whole(str(tmp_path / "a"), b"x")

    assert (tmp_path / "a").read_bytes() == b"x"


def test_a_link_keeps_leading_where_it_led(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("a")

    write_whole(str(tmp_path / "link"), b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_whole("/dev/null", b"x")

    assert Path("/dev/null").is_char_device()


def test_what_fails_leaves_the_old_content_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(OSError, match="No space left"):
        write_whole(str(tmp_path / "a"), b"new")

    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
