"""The setting `store`: which forms there are, where the password comes from, and who may set it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.app.backing import close_store, open_backing
from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.store import StoreSettings, store_of
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError
from pegboard.ports.store import StoreError
from pegboard.store.sqlite import SqliteStore
from tests.postgres import PASSWORD, PostgresServer

URL = "postgresql://me@host/db"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths.of({"HOME": str(tmp_path / "home")})
    made.config.mkdir(parents=True)
    return made


def settings(paths: Paths, text: str) -> StoreSettings:
    (paths.config / "pegboard.toml").write_text(text)
    return load_config(paths, None, environment={}).store


def test_a_store_is_named_by_a_text_or_a_table(paths: Paths) -> None:
    assert load_config(paths, None).store == StoreSettings()
    assert settings(paths, f'store = "{URL}"') == StoreSettings(url=URL)
    assert settings(paths, f'store = {{url = "{URL}", password = "env:X"}}') == StoreSettings(
        url=URL, password="env:X"
    )
    # From the folder of the settings file on.
    assert settings(paths, 'store = "sqlite:h.sqlite"').file(paths) == paths.config / "h.sqlite"
    assert StoreSettings().file(paths) == paths.state / "history.sqlite"
    assert store_of(URL).file(paths) is None
    assert store_of("a.sqlite").file(paths) == Path("a.sqlite").absolute()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('store = "mysql://me:very-private@host/db"', "store must be sqlite:PATH or postgresql://"),
        ('store = "sqlite:"', "store must be sqlite:PATH or postgresql://"),
        ("store = 3", "store must be a table"),
        ('store = {url = "sqlite:a", user = "b"}', "user"),
        (
            f'store = {{url = "{URL}", password = "very-private"}}',
            "env:NAME, file:PATH or keyring:SERVICE/USER",
        ),
    ],
)
def test_a_wrong_store_is_refused_without_repeating_a_password(paths: Paths, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        settings(paths, text)

    assert "very-private" not in str(caught.value)


def test_a_project_cannot_choose_the_store_even_if_it_is_trusted(paths: Paths, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    file = project / "pegboard.toml"
    file.write_text(f'store = "sqlite:{project / "mine.sqlite"}"')
    untrusted = load_config(paths, project)
    Trust(paths).add(file)
    trusted = load_config(paths, project)

    assert untrusted.store == trusted.store == StoreSettings()
    assert any("'store' is ignored" in one for one in trusted.ignored)


def test_two_stores_note_the_ends_of_their_streams_apart(paths: Paths) -> None:
    folders = {s.chain(paths).heads for s in (StoreSettings(), store_of(URL), store_of(f"{URL}?schema=b"))}

    assert len(folders) == 3
    assert paths.config / "heads" in folders
    # Whoever knows the password: it is the same store.
    assert store_of("postgresql://me:pw@host/db").chain(paths).heads == store_of(URL).chain(paths).heads


async def test_an_agent_that_names_no_store_uses_the_one_of_the_settings(
    paths: Paths, tmp_path: Path
) -> None:
    settings(paths, f'store = "sqlite:{tmp_path / "mine.sqlite"}"')
    backing = await open_backing(None, paths)

    assert isinstance(backing.store, SqliteStore)
    assert backing.store.place == str(tmp_path / "mine.sqlite")
    await close_store(backing.store)
    assert not (paths.state / "history.sqlite").exists()


async def test_the_password_is_read_where_it_is_said_to_be(
    paths: Paths, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.url().replace(f":{PASSWORD}@", "@")
    named = StoreSettings(url=url, password="env:MY_DB")
    with pytest.raises(StoreError, match="has no value at env:MY_DB"):
        named.store(paths)
    monkeypatch.setenv("MY_DB", PASSWORD)

    store = named.store(paths)
    await store.connect()
    assert PASSWORD not in store.place
    await store.close()


async def test_agents_of_one_process_share_a_database(paths: Paths, postgres_server: PostgresServer) -> None:
    url = postgres_server.url()
    first, second = [await open_backing(url, paths) for _ in range(2)]

    assert first.store is second.store
    await close_store(first.store)
    assert await second.store.read("s") == []
    await close_store(second.store)
    with pytest.raises(StoreError, match="closed"):
        await second.store.read("s")
