"""The jail beyond the corpus: roots, protected names, links, modes, messages."""

from __future__ import annotations

import os
import socket
import stat
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.core.errors import (
    Conflict,
    InvalidArguments,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    TooLarge,
    ToolError,
    Unsupported,
)
from pegboard.core.protected import ProtectedNames, folded
from pegboard.files.jail import Jail
from pegboard.files.openat import WalkOpener
from pegboard.files.roots import Access, case_variant, shown
from tests.ledger import owes


@owes("X-44", "N-33")
def test_allowed_dirs_are_read_and_written_and_read_only_dirs_only_read(tmp_path: Path) -> None:
    for name in ("work", "more", "look", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    jail = Jail(tmp_path / "work", allowed_dirs=[tmp_path / "more"], read_only_dirs=[tmp_path / "look"])

    assert jail.read_bytes(str(tmp_path / "more/f")) == b"more"
    assert jail.read_bytes("../look/f") == b"look"
    jail.write_bytes(str(tmp_path / "more/new/g"), b"1")
    with pytest.raises(PermissionDenied, match="is in a read-only folder"):
        jail.write_bytes(str(tmp_path / "look/g"), b"1")
    with pytest.raises(OutsideWorkspace):
        jail.read_bytes(str(tmp_path / "other/f"))


def test_a_read_only_dir_inside_the_workspace_makes_that_part_read_only(root: Path) -> None:
    (root / "vendor").mkdir()
    (root / "vendor/a").write_text("x")
    jail = Jail(root, read_only_dirs=[root / "vendor"])

    assert jail.read_bytes("vendor/a") == b"x"
    for change in (lambda: jail.write_bytes("vendor/a", b"y"), lambda: jail.delete("vendor/a")):
        with pytest.raises(PermissionDenied):
            change()
    jail.write_bytes("vendors", b"a name that only starts alike")


@owes("X-44")
def test_full_access_reaches_everything_but_devices_and_protected_names(tmp_path: Path, root: Path) -> None:
    (tmp_path / "far").write_text("far")
    jail = Jail(root, full_access=True, masked=[tmp_path / "keys"])
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/id").write_text("secret")

    assert jail.read_bytes(str(tmp_path / "far")) == b"far"
    jail.write_bytes(str(tmp_path / "far"), b"new")
    assert (tmp_path / "far").read_text() == "new"
    assert jail.read_bytes("/proc/self/stat")
    with pytest.raises(Unsupported):
        jail.read_bytes("/dev/zero")
    with pytest.raises(PermissionDenied):
        jail.write_bytes(str(tmp_path / ".bashrc"), b"x")
    with pytest.raises(PermissionDenied, match="agents may not use"):
        jail.read_bytes(str(tmp_path / "keys/id"))
    assert "keys" not in jail.list(str(tmp_path))


@owes("N-30")
def test_a_tilde_is_the_home_folder_and_a_file_of_that_name_takes_a_dot(tmp_path: Path, root: Path) -> None:
    (root / "notes").write_text("n")
    (root / "~$report.docx").write_text("lock")
    (root / "~").write_text("tilde")
    jail = Jail(root, home=root.parent)

    assert jail.read_bytes("~/work/notes") == b"n"
    assert jail.read_bytes("~$report.docx") == b"lock"
    assert jail.read_bytes("./~") == b"tilde"
    with pytest.raises(OutsideWorkspace, match=r"\./~"):
        jail.read_bytes("~")
    with pytest.raises(OutsideWorkspace):
        jail.read_bytes("~root/x")


def test_without_a_given_home_the_password_database_says(root: Path) -> None:
    with pytest.raises(OutsideWorkspace):
        Jail(root).read_bytes("~/x")


@owes("K-30")
@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit", ".GIT/Hooks/x", "sub/.git/config", ".git /config", ".git./config", "git~1/config",
        ".git::$INDEX_ALLOCATION/config", ".g\u200cit/config", ".git", ".git/modules/a/hooks/x", ".envrc",
        ".vscode/tasks.json", ".mcp.json", "pegboard.toml", ".pegboard/x", "ＰＥＧＢＯＡＲＤ.toml",
    ],
)  # fmt: skip
def test_protected_names_hold_in_every_spelling(root: Path, path: str) -> None:
    jail = Jail(root)

    with pytest.raises(PermissionDenied, match="protected"):
        jail.write_bytes(path, b"x")

    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "path", [".gitignore", ".git/info/exclude", "git/config", "x.vscode", ".github/ci.yml"]
)
def test_names_that_only_resemble_protected_ones_are_open(root: Path, path: str) -> None:
    Jail(root).write_bytes(path, b"x")

    assert (root / path).read_bytes() == b"x"


def test_a_link_to_a_protected_folder_does_not_open_it(root: Path) -> None:
    (root / ".git/hooks").mkdir(parents=True)
    (root / "innocent").symlink_to(".git")
    jail = Jail(root)

    for path in ("innocent/hooks/x", "innocent/config"):
        with pytest.raises(PermissionDenied):
            jail.write_bytes(path, b"x")
    jail.write_bytes("innocent/description", b"fine")


def test_protected_can_be_replaced(root: Path) -> None:
    jail = Jail(root, protected=["secret"])

    jail.write_bytes(".envrc", b"x")
    with pytest.raises(PermissionDenied):
        jail.mkdir("a/secret")
    assert ProtectedNames(()).match(".git/config") is None


def test_a_write_keeps_mode_and_owner_and_attributes_and_follows_a_link_inside(root: Path) -> None:
    target = root / "run.sh"
    target.write_text("old")
    target.chmod(0o4751)
    (root / "link").symlink_to(root / "run.sh")
    if os.geteuid() == 0:
        os.chown(target, 12, 34)
    jail = Jail(root)

    written = jail.write_bytes("link", b"new")

    assert (written.target, written.created, written.warnings) == ("run.sh", False, ())
    assert (root / "link").is_symlink()
    assert target.read_bytes() == b"new"
    # Set-user-id is dropped, as write(2) drops it.
    assert stat.S_IMODE(target.stat().st_mode) == 0o751
    if os.geteuid() == 0:
        assert (target.stat().st_uid, target.stat().st_gid) == (12, 34)
    assert os.listdir(root) and not [name for name in os.listdir(root) if name.startswith(".pegboard")]


def test_a_new_file_gets_the_umask_s_mode(root: Path) -> None:
    old = os.umask(0o027)
    try:
        Jail(root).write_bytes("a", b"x")
    finally:
        os.umask(old)

    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o640


def test_a_hard_linked_file_is_replaced_with_a_warning(root: Path) -> None:
    (root / "a").write_text("old")
    os.link(root / "a", root / "b")
    os.link(root / "a", root / "c")

    written = Jail(root).write_bytes("a", b"new")

    assert written.warnings == ("a is a hard link; its 2 other names keep the old content.",)
    assert (root / "b").read_text() == "old"


def test_a_file_without_write_permission_is_not_replaced(root: Path) -> None:
    (root / "a").write_text("old")
    (root / "a").chmod(0o444)

    with pytest.raises(PermissionDenied, match=r"read-only \(mode 444\)"):
        Jail(root).write_bytes("a", b"new")


def test_twins_by_case_are_not_created_and_are_named_on_a_miss(root: Path) -> None:
    (root / "README.md").write_text("x")
    (root / unicodedata.normalize("NFD", "café")).write_text("x")
    jail = Jail(root)

    for twin_name in ("readme.MD", "Café"):
        with pytest.raises(Conflict, match="differs from the existing"):
            jail.write_bytes(twin_name, b"y")
        with pytest.raises(NotFound) as caught:
            jail.read_bytes(twin_name)
        assert "differs by case or Unicode form" in caught.value.hint
    jail.write_bytes("README.md", b"the name itself is fine")
    # A name in another Unicode form is the one that is there.
    assert not jail.write_bytes("café", b"y").created


def test_control_characters_are_refused_in_new_names_and_read_where_they_exist(root: Path) -> None:
    (root / "a\nb").write_text("odd")
    jail = Jail(root)

    assert jail.read_bytes("a\nb") == b"odd"
    for name in ("c\nd", "x\u202etxt", "sub\x1b/e", "\u200bz", "a\u2028"):
        with pytest.raises(InvalidArguments, match="control character"):
            jail.write_bytes(name, b"x")
    jail.write_bytes("فارسی\u200cنویسی", b"a joiner is spelling")
    with pytest.raises(NotFound) as caught:
        jail.read_bytes("no\x1b[31m")
    assert "\x1b" not in str(caught.value)


def test_over_long_names_and_paths_are_refused_with_the_numbers(root: Path) -> None:
    jail = Jail(root)

    with pytest.raises(InvalidArguments, match="256 bytes long; 255"):
        jail.write_bytes("a" * 256, b"")
    with pytest.raises(InvalidArguments, match="4095"):
        jail.read_bytes("a/" * 2048 + "aa")
    jail.write_bytes("é" * 127, b"254 bytes")


def test_special_files_are_named_for_what_they_are(root: Path) -> None:
    os.mkfifo(root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(root / "sock"))
    jail = Jail(root)

    with pytest.raises(Unsupported, match="FIFO"):
        jail.read_bytes("pipe")
    with pytest.raises(Unsupported):
        jail.read_bytes("sock")
    with pytest.raises(Unsupported, match="socket"):
        jail.write_bytes("sock", b"x")
    with pytest.raises(Unsupported, match="folder"):
        jail.read_bytes(".")
    jail.delete("pipe")
    listener.close()


def test_a_hard_link_or_a_growing_file_does_not_get_past_the_limit(root: Path) -> None:
    (root / "big").write_bytes(b"x" * 100)
    jail = Jail(root, read_limit_bytes=99)

    with pytest.raises(TooLarge) as caught:
        jail.read_bytes("big")
    assert caught.value.details == {"size": 100, "limit": 99}
    full = Jail(root, full_access=True, read_limit_bytes=10)
    with pytest.raises(TooLarge, match="over 10 bytes"):
        full.read_bytes("/proc/self/status")  # says that it has no bytes


@owes("N-33")
def test_a_denial_holds_on_the_file_that_is_opened_whatever_its_name(root: Path) -> None:
    (root / "secret").mkdir()
    (root / "secret/key").write_text("k")
    (root / "alias").symlink_to("secret/key")
    asked: list[tuple[str, str]] = []

    def deny(access: str, target: str) -> str | None:
        asked.append((access, target))
        return "private" if target.startswith("secret") else None

    jail = Jail(root, deny=deny)
    for path in ("secret/key", "alias", "secret/../alias", str(root / "alias")):
        with pytest.raises(PermissionDenied, match="private"):
            jail.read_bytes(path)
    with pytest.raises(PermissionDenied):
        jail.write_bytes("alias", b"x")
    with pytest.raises(PermissionDenied):
        jail.list("secret")
    assert jail.list(".") == ["alias"]
    assert jail.glob("**") == ["alias"]
    assert ("read", "secret/key") in asked
    assert ("write", "secret/key") in asked


def test_a_mask_elsewhere_costs_nothing_and_one_around_the_workspace_closes_it(
    tmp_path: Path, root: Path
) -> None:
    (root / "a").write_text("x")
    (tmp_path / "keys").mkdir()

    assert Jail(root, masked=[tmp_path / "keys"]).all_readable_below(str(root))
    # With the whole system open the keys can be met, though not by a walk of the workspace.
    wide = Jail(root, masked=[tmp_path / "keys"], full_access=True)
    assert wide.all_readable_below(str(root))
    assert not wide.all_readable_below(str(tmp_path))
    closed = Jail(root, masked=[tmp_path])
    with pytest.raises(PermissionDenied):
        closed.read_bytes("a")
    assert not closed.inside(str(root / "a"), write=False)


def test_glob_stars_stay_in_one_name_and_double_stars_cross(root: Path) -> None:
    for name in ("a.py", "d/b.py", "d/e/c.py", "d/x.txt", ".hid/z.py", "[odd].py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "loop").symlink_to(".")
    jail = Jail(root)

    assert jail.glob("*.py") == ["[odd].py", "a.py"]
    assert jail.glob("**/*.py") == [".hid/z.py", "[odd].py", "a.py", "d/b.py", "d/e/c.py"]
    assert jail.glob("d/**") == ["d/b.py", "d/e", "d/e/c.py", "d/x.txt"]
    assert jail.glob("?/[!a].py") == ["d/b.py"]
    assert jail.glob("[[]odd].py") == ["[odd].py"]
    assert jail.glob("[") == []
    assert jail.glob("./a.py") == ["a.py"]
    for bad in ("/etc/*", "../*", "~/*"):
        with pytest.raises(OutsideWorkspace):
            jail.glob(bad)


def test_mkdir_makes_parents_and_minds_files_in_the_way(root: Path) -> None:
    jail = Jail(root)
    jail.mkdir("a/b/c/")
    jail.mkdir("a/b/c")
    jail.mkdir(".")
    (root / "f").write_text("")

    assert (root / "a/b/c").is_dir()
    with pytest.raises(Conflict, match="is a file"):
        jail.mkdir("f")
    with pytest.raises(Conflict, match="is a file"):
        jail.mkdir("f/g")
    with pytest.raises(InvalidArguments):
        jail.mkdir("a/\x07")
    with pytest.raises(NotFound):
        jail.mkdir("a/new/../../../x")
    assert sorted(path.name for path in (root / "a").iterdir()) == ["b"]
    with pytest.raises(Unsupported):
        jail.delete("a")
    with pytest.raises(NotFound):
        jail.delete("nothing")


def test_the_workspace_may_be_named_by_a_link_and_keeps_its_identity(tmp_path: Path, root: Path) -> None:
    (tmp_path / "name").symlink_to(root)
    (root / "a").write_text("x")
    jail = Jail(tmp_path / "name")

    assert jail.read_bytes(str(tmp_path / "name/a")) == b"x"
    assert jail.read_bytes(str(root / "a")) == b"x"
    assert jail.read_bytes(f"{root}//a") == b"x"
    there = root.stat()
    assert jail.identity == (there.st_dev, there.st_ino, str(root))
    assert jail.root == root
    root.rename(tmp_path / "elsewhere")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a").write_text("not ours")
    root.symlink_to(tmp_path / "outside")
    assert jail.read_bytes("a") == b"x"


def test_without_proc_a_place_is_named_by_its_path_and_verified(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_proc(_: int) -> str:
        raise FileNotFoundError(2, "no /proc here")

    (root / "d").mkdir()
    (root / "d/a").write_text("x")
    monkeypatch.setattr("pegboard.files.jail.real_path", no_proc)
    jail = Jail(root, opener=WalkOpener(), deny=lambda access, target: "no" if target == "d/b" else None)

    assert jail.read_bytes("d/a") == b"x"


def test_a_missing_workspace_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Directory not found"):
        Jail(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(Unsupported):
        Jail(tmp_path / "file")


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(st.lists(st.one_of(st.sampled_from(["..", ".", "", "a", "out", "in", "~", "/"]), NAMES), max_size=8))
def test_no_text_gets_out_and_nothing_but_a_tool_error_is_raised(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    base = tmp_path_factory.getbasetemp() / "any"
    root = base / "w"
    if not root.exists():
        (root / "a").mkdir(parents=True)
        (root / "out").symlink_to(base)
        (root / "in").symlink_to(root / "a")
        (base / "secret").write_text("secret")
    jail = Jail(root)
    path = "/".join(parts)

    try:
        data = jail.read_bytes(path)
    except ToolError as error:
        str(error).encode("utf-8")
    else:
        assert data != b"secret"
    finally:
        jail.close()


@given(st.text(max_size=30))
def test_folding_is_stable_and_shown_text_is_printable(text: str) -> None:
    assert folded(folded(text)) == folded(text)
    assert shown(text).isprintable()


def test_twins_are_found_by_compatibility_and_case() -> None:
    assert case_variant("Straße", ["STRASSE", "x"]) == "STRASSE"
    assert case_variant("ﬁle", ["file"]) == "file"
    assert case_variant("a", ["a", "b"]) is None


def test_an_empty_name_makes_no_folder_and_an_absolute_pattern_inside_is_one_of_the_workspace(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("x")
    jail = Jail(tmp_path)

    with pytest.raises(InvalidArguments):
        jail.mkdir("")
    with pytest.raises(OutsideWorkspace):
        jail.glob(f"{tmp_path}/../*")
    assert jail.glob(f"{tmp_path}/*.txt") == ["a.txt"]


def test_paths_may_be_path_objects(root: Path) -> None:
    jail = Jail(root)

    jail.mkdir(Path("made/here"))
    jail.write_bytes(Path("made/here/a"), b"1")

    assert jail.list(root / "made" / "here") == ["a"]
    assert jail.read_bytes(root / "made/here/a") == b"1"
    jail.delete(Path("made/here/a"))
    assert not (root / "made/here/a").exists()


@given(
    st.lists(st.sampled_from(["a", "d", "in", "out", "loop", "..", ".", "", "missing"]), max_size=5),
    st.booleans(),
)
def test_where_a_path_leads_is_what_realpath_says(parts: list[str], absolute: bool) -> None:
    with TemporaryDirectory() as folder:
        work = Path(folder).resolve() / "work"
        (work / "d/d").mkdir(parents=True)
        (work / "a").write_text("")
        (work / "d/a").write_text("")
        (work / "in").symlink_to("d/d")
        (work / "d/out").symlink_to(folder)
        (work / "loop").symlink_to("loop")
        name = "/".join([str(work) if absolute else ".", *parts])
        jail = Jail(work)

        assert jail.locate(name) == os.path.realpath(name if absolute else f"{work}/{name}")
        jail.close()


def test_a_workspace_whose_path_leads_elsewhere_by_now_is_not_taken_for_the_one_that_is_open(
    tmp_path: Path,
) -> None:
    work, other = tmp_path.resolve() / "work", tmp_path.resolve() / "other"
    work.mkdir()
    other.mkdir()
    jail = Jail(work)
    work.rename(tmp_path / "moved")

    gone = jail.locate("a")
    work.symlink_to(other)

    assert gone == str(work / "a")
    assert jail.locate("a") == str(other / "a")
    assert not jail.inside(jail.locate("a"), write=False)


@owes("N-02", "N-33")
@pytest.mark.parametrize("folder", ["", "deep/"])
def test_a_write_through_a_link_that_leads_out_is_refused_by_the_name_that_was_sent(
    root: Path, tmp_path: Path, folder: str
) -> None:
    away = tmp_path / "kept away"
    away.mkdir()
    (away / "f").write_text("theirs")
    (root / "deep").mkdir(exist_ok=True)
    (root / folder / "link").symlink_to(away / "f")
    (root / folder / "dangling").symlink_to(away / "new")
    jail = Jail(root)

    for name in ("link", "dangling"):
        with pytest.raises(OutsideWorkspace) as caught:
            jail.write_bytes(folder + name, b"ours")
        assert f"{folder}{name} is outside the workspace" in caught.value.message
        # Where a link leads is nothing that a model may learn by trying.
        assert "kept away" not in caught.value.message
    assert {p.name: p.read_text() for p in away.iterdir()} == {"f": "theirs"}


@owes("N-02", "N-33")
@pytest.mark.parametrize("path", ["..", "../", "../.", "deep/../..", "../other/..", "/"])
def test_a_path_that_ends_in_dots_outside_is_outside_whatever_is_there(root: Path, path: str) -> None:
    (root / "deep").mkdir(exist_ok=True)
    jail = Jail(root)

    for act in (lambda: jail.write_bytes(path, b""), lambda: jail.delete(path)):
        with pytest.raises(OutsideWorkspace):
            act()
    for inside in (".", "deep/..", "deep/."):
        with pytest.raises(Unsupported, match="is a folder"):
            jail.write_bytes(inside, b"")


@owes("N-02", "N-33", "X-44")
@pytest.mark.parametrize("access", ["read", "write", "delete"])
def test_the_permits_alone_refuse_a_place_that_lies_in_no_root(
    root: Path, tmp_path: Path, access: Access
) -> None:
    jail = Jail(root)

    for place in (tmp_path, tmp_path / "f", Path(f"{root}-beside/f"), Path("/etc/passwd")):
        with pytest.raises(OutsideWorkspace):
            jail.authorise(access, str(place), "sent")
    jail.authorise(access, str(root / "f"), "sent")


@owes("N-02", "N-33")
def test_the_folder_of_a_new_file_is_looked_for_beneath_the_root_alone(root: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (root / "link").symlink_to("../beside")
    (root / "gone").symlink_to("../beside/made")
    jail = Jail(root)

    with pytest.raises((OutsideWorkspace, NotFound)):
        jail.write_bytes("missing/../../beside/f", b"x")
    for path in ("link/f", "link/new/f", "gone/f", "gone/new/f", "../beside/f"):
        with pytest.raises(OutsideWorkspace):
            jail.write_bytes(path, b"x")
    assert list((tmp_path / "beside").iterdir()) == []

    # A link to a folder that is not there yet: planning says so already, before anything would be made.
    (root / "later").symlink_to("made")
    for path in ("later/f", "later/new/f"):
        with pytest.raises(OutsideWorkspace, match="is outside"), jail.find_parent(path, "write"):
            pass
