"""cron and schedule_task: jobs are added, listed, changed and run; what they may do is known before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pegboard import Executor, builtin
from pegboard.compat import moltbot, nanobot, nanobot_net
from pegboard.config.schedules import Heartbeat, ScheduleSettings
from pegboard.core.errors import InvalidArguments
from pegboard.core.limits import SystemClock
from pegboard.core.tool import Tool
from pegboard.ports.messages import Destination
from pegboard.ports.schedules import JobRequest
from pegboard.ports.store import Store
from pegboard.ports.subagents import Child
from pegboard.runtime.scheduler import Scheduler, message_of
from pegboard.services.schedules import StoredSchedules
from pegboard.store.children import Children
from pegboard.store.inbox import Inbox
from pegboard.store.jobs import Jobs
from pegboard.store.memory import MemoryStore
from tests.ledger import owes

NOW = datetime(2027, 3, 24, 10, 0, tzinfo=UTC).timestamp()
"""A Wednesday, 18:00 in Shanghai."""


class HandClock(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> float:
        return self.at


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = MemoryStore()
    yield made
    await made.close()


def over(store: Store, clock: HandClock, workspace: Path | None = None, **settings: Any) -> StoredSchedules:
    async def opened() -> Store:
        return store

    chosen = ScheduleSettings(timezone="Asia/Shanghai", **settings)
    return StoredSchedules(opened, settings=chosen, workspace=workspace, clock=clock)


@pytest.fixture
def schedules(store: Store, clock: HandClock) -> StoredSchedules:
    return over(store, clock)


@pytest.fixture
async def door(schedules: StoredSchedules) -> AsyncIterator[Executor]:
    async with Executor(
        builtin("cron", "schedule_task"), provide=[schedules], mode="full", session="s1"
    ) as made:
        yield made


async def ok(door: Executor, tool: str, /, **arguments: Any) -> Any:
    result = await door.call(tool, arguments)
    assert result.ok, str(result)
    return result.data


@owes("N-90", "N-91", "N-92", "N-93", "N-95", "N-97", "N-98", "N-99", "X-34")
@pytest.mark.parametrize(
    ("when", "kind", "schedule", "first"),
    [
        ({"every_seconds": 600}, "every", "every 10m", "2027-03-24T18:10:00+08:00"),
        ({"cron_expr": "0 9 * * *"}, "cron", "0 9 * * *", "2027-03-25T09:00:00+08:00"),
        ({"cron_expr": "0 9 * * *", "tz": "UTC"}, "cron", "0 9 * * *", "2027-03-25T17:00:00+08:00"),
        ({"at": "2027-03-25T10:00:00"}, "at", "2027-03-25T10:00:00+08:00", "2027-03-25T10:00:00+08:00"),
        ({"schedule": "every Monday at 9"}, "cron", "0 9 * * 1", "2027-03-29T09:00:00+08:00"),
        ({"schedule": "20m"}, "at", "2027-03-24T18:20:00+08:00", "2027-03-24T18:20:00+08:00"),
    ],
)
async def test_each_way_to_say_when_is_taken(
    door: Executor, when: dict[str, Any], kind: str, schedule: str, first: str
) -> None:
    added = (await ok(door, "cron", action="add", message="stand up", **when))["job"]
    (listed,) = (await ok(door, "cron", action="list"))["jobs"]

    assert listed == added
    assert (added["kind"], added["schedule"], added["next"][0]) == (kind, schedule, first)
    assert len(added["next"]) == (1 if kind == "at" else 3)
    assert (added["message"], added["session"], added["wake"]) == ("stand up", "s1", "now")


@owes("N-94", "N-101", "N-91", "cron-21")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"every_seconds": 60, "tz": "Europe/Berlin"}, "tz can only be given with cron_expr"),
        ({"at": "2027-03-25T10:00", "tz": "Europe/Berlin"}, "tz can only be given with cron_expr"),
        ({"cron_expr": "0 9 * * *", "tz": "Mars/Base"}, "no time zone is called 'Mars/Base'"),
        ({"cron_expr": "0 9 * * * *"}, "6 fields"),
        ({"cron_expr": "0 9 * * *", "every_seconds": 60}, "cron_expr and every_seconds say when"),
        ({}, "nothing says when"),
        ({"at": "2027-03-24T09:59:00Z"}, "has passed: it is 2027-03-24T18:00:00+08:00 now"),
        ({"schedule": "20m", "message": " "}, "message is empty"),
        ({"schedule": "20m", "delivery": "channel"}, "delivery channel needs a channel"),
        ({"schedule": "20m", "delivery": "webhook", "chat_id": "x"}, "needs an http or https address"),
        ({"every_seconds": 0}, "every_seconds"),
    ],
)
async def test_what_cannot_be_scheduled_is_refused_before_anybody_is_asked(
    schedules: StoredSchedules, given: dict[str, Any], says: str
) -> None:
    class Asked:
        async def decide(self, request: Any) -> str:
            raise AssertionError("a person was asked")

    async with Executor(builtin("cron"), provide=[schedules], mode="ask", approver=Asked()) as door:
        result = await door.call("cron", {"action": "add", "message": "hi", **given})

    assert not result.ok
    assert says in str(result)
    assert await schedules.list() == []


@owes("N-96", "M-37", "M-38", "X-34")
async def test_003s_words_add_list_and_remove(door: Executor) -> None:
    job = (await ok(door, "cron", action="add", schedule="0 9 * * *", prompt="Send daily report"))["job"]

    assert (job["schedule"], job["message"], job["next"][0][11:19]) == (
        "0 9 * * *",
        "Send daily report",
        "09:00:00",
    )
    assert (await ok(door, "cron", action="remove", id=job["id"]))["job"]["id"] == job["id"]
    assert (await ok(door, "cron", action="list"))["jobs"] == []
    gone = await door.call("cron", {"action": "remove", "id": job["id"]})
    assert "There are no jobs." in str(gone)
    assert "say which job" in str(await door.call("cron", {"action": "remove"}))


async def test_a_job_is_changed_disabled_enabled_and_run(
    door: Executor, store: Store, clock: HandClock
) -> None:
    await ok(door, "cron", action="add", schedule="0 9 * * *", message="a", name="report")

    changed = await ok(door, "cron", action="update", job_id="report", schedule="daily at 10:00", message="b")
    assert (changed["job"]["schedule"], changed["job"]["message"]) == ("0 10 * * *", "b")
    assert changed["job"]["next"][0] == "2027-03-25T10:00:00+08:00"
    assert (await ok(door, "cron", action="disable", name="report"))["job"]["next"] == []
    assert (await ok(door, "cron", action="enable", name="report"))["job"]["next"][
        0
    ] == "2027-03-25T10:00:00+08:00"
    await ok(door, "cron", action="run", name="report")
    (message,) = await Inbox(store).waiting("s1")
    assert (message.content, message.id.split(":")[2:]) == ("b", [str(int(NOW)), "run"])
    (row,) = (await ok(door, "cron", action="runs", name="report"))["runs"]
    assert (row["status"], row["note"]) == ("queued", "run by hand")
    assert "this very second" in str(await door.call("cron", {"action": "run", "name": "report"}))


async def test_two_jobs_of_one_name_are_told_apart_by_their_ids(door: Executor) -> None:
    ids = [
        (await ok(door, "cron", action="add", schedule="20m", message="x", name="same"))["job"]["id"]
        for _ in "ab"
    ]

    refused = str(await door.call("cron", {"action": "remove", "name": "same"}))

    assert all(id in refused for id in ids)


async def test_a_job_for_one_time_that_passed_is_enabled_only_with_another_time(
    door: Executor, clock: HandClock
) -> None:
    await ok(door, "cron", action="add", schedule="20m", message="x", name="once")
    await ok(door, "cron", action="disable", name="once")
    clock.at = NOW + 3600

    refused = await door.call("cron", {"action": "enable", "name": "once"})

    assert "has passed" in str(refused)


async def test_what_a_job_may_do_is_known_before_it_is_added(schedules: StoredSchedules) -> None:
    async def effects(**given: Any) -> tuple[list[str], str]:
        shown = await door.preview("cron", given)
        return [str(e) for e in shown.effects], shown.decision

    async with Executor(builtin("cron"), provide=[schedules], mode="workspace") as door:
        add = {"action": "add", "schedule": "0 9 * * *", "message": "report"}
        assert await effects(**add) == (["schedule add:0 9 * * * report"], "ask")
        to = await effects(**add, channel="telegram", chat_id="5")
        assert to == (["schedule add:0 9 * * * report", "send telegram:5"], "ask")
        hook = await effects(**add, delivery="webhook", chat_id="https://user:pw@hooks.example/x")
        assert hook[0] == ["schedule add:0 9 * * * report", "connect hooks.example"]
        assert await effects(action="list") == ([], "allow")
        assert await effects(action="remove", job_id="j1") == (["schedule remove:j1"], "allow")
        assert await effects(action="run", job_id="j1") == (["schedule run:j1"], "ask")
    async with Executor(builtin("cron"), provide=[schedules], mode="read-only") as door:
        assert (await effects(**add))[1] == "deny"
    assert await schedules.list() == []


@owes("X-35", "K-60", "K-61")
async def test_answers_go_where_the_session_came_from_unless_said_otherwise(
    schedules: StoredSchedules,
) -> None:
    async with Executor(builtin("cron"), provide=[schedules], mode="full", session="tg:5") as door:
        door.context = replace(door.context, origin={"channel": "telegram", "chat_id": "5"})

        async def reply(**given: Any) -> tuple[str, Destination | None]:
            data = await ok(door, "cron", action="add", schedule="20m", message="x", **given)
            (job,) = [j for j in await schedules.list() if j.id == data["job"]["id"]]
            return job.session.replace(job.id, "ID"), job.reply

        here = Destination(channel="telegram", chat_id="5")
        assert await reply() == ("tg:5", here)
        assert await reply(chat_id="6") == ("tg:5", replace(here, chat_id="6"))
        assert await reply(channel="slack", chat_id="c") == (
            "tg:5",
            Destination(channel="slack", chat_id="c"),
        )
        assert await reply(session="isolated") == ("schedule:ID", here)
        to_session = Destination(channel="session", chat_id="tg:5")
        assert await reply(session="isolated", delivery="session") == ("schedule:ID", to_session)
        assert await reply(delivery="none") == ("tg:5", None)
        hook = await reply(delivery="webhook", chat_id="https://hooks.example/x")
        assert hook == ("tg:5", Destination(channel="webhook", chat_id="https://hooks.example/x"))


async def test_rules_for_the_sender_who_made_a_job_hold_for_its_runs(schedules: StoredSchedules) -> None:
    async with Executor(builtin("cron"), provide=[schedules], mode="full", session="tg:5") as door:
        origin = {"channel": "telegram", "chat_id": "5", "sender": "ann", "message_id": "m1"}
        door.context = replace(door.context, origin=origin)
        await ok(door, "cron", action="add", schedule="20m", message="x")
    (job,) = await schedules.list()

    message = message_of(job, 0.0, now=0.0)

    assert (message.channel, message.sender_id, message.by) == ("telegram", "ann", "schedule")


async def test_a_run_that_a_job_started_cannot_add_jobs(schedules: StoredSchedules) -> None:
    async with Executor(builtin("cron"), provide=[schedules], mode="full", session="schedule:j1") as door:
        result = await door.call("cron", {"action": "add", "schedule": "20m", "message": "again"})

    assert "cannot add schedules" in str(result)


@owes("D-32", "D-33", "D-34", "D-35", "X-60")
async def test_001s_task_is_scheduled_and_said_in_its_words(schedules: StoredSchedules) -> None:
    kit = builtin("schedule_task")
    given = {"task": "日报", "schedule": "每天早上九点", "channel": "telegram"}
    async with Executor(kit.profile("nanobot", locale="zh"), provide=[schedules], mode="full") as door:
        assert str(await door.call("schedule_task", given)) == "任务已创建:日报,调度:0 9 * * *"
    async with Executor(kit.profile("nanobot"), provide=[schedules], mode="full") as door:
        assert str(await door.call("schedule_task", given)) == "Task created: 日报, schedule: 0 9 * * *"
        (shown,) = door.toolkit
        assert shown.schema["required"] == ["task", "schedule", "channel"]

    jobs = await schedules.list()
    assert [(j.message, j.reply) for j in jobs] == [("日报", Destination(channel="telegram"))] * 2


@owes("D-34")
async def test_001s_tool_gives_a_job_to_the_service_that_it_was_made_with() -> None:
    kept: list[dict[str, str]] = []

    class CronService:
        def add(self, task: str, schedule: str, channel: str) -> None:
            kept.append({"task": task, "schedule": schedule, "channel": channel})

    tool = nanobot.ScheduleTaskTool(CronService(), mode="full")

    said = await tool.run(task="report", schedule="every Monday at 9", channel="slack")

    assert said == "Task created: report, schedule: 0 9 * * 1"
    assert kept == [{"task": "report", "schedule": "0 9 * * 1", "channel": "slack"}]
    assert tool.parse_schedule("每天早上九点") == "0 9 * * *"
    assert "cannot read 'soon'" in await tool.run(task="x", schedule="soon", channel="y")


@owes("N-100", "X-35")
async def test_000s_set_context_counts_in_its_own_task_alone(schedules: StoredSchedules) -> None:
    tool = nanobot.CronTool(schedules, mode="full")

    async def chat(number: str) -> None:
        tool.set_context("telegram", number)
        await asyncio.sleep(0)
        await tool.execute(action="add", message=number, every_seconds=60)

    await asyncio.gather(*(chat(str(n)) for n in range(5)))

    assert tool.name == "cron"
    jobs = await schedules.list()
    assert len(jobs) == 5
    assert all(j.reply == Destination(channel="telegram", chat_id=j.message) for j in jobs)


@owes("N-90", "N-96")
async def test_002s_and_003s_tools_have_their_parameters_and_work(schedules: StoredSchedules) -> None:
    net, molt = nanobot_net.CronTools.create_cron_tool(), moltbot.create_cron_tool()
    assert isinstance(molt, Tool)
    assert list(net.schema["properties"]) == ["action", "name", "schedule", "message"]
    assert list(molt.schema["properties"]) == ["action", "schedule", "prompt", "id"]

    async with Executor([net], provide=[schedules], mode="full") as door:
        await ok(door, "cron", action="add", name="report", schedule="0 9 * * *", message="Report")
        await ok(door, "cron", action="add", name="other", schedule="0 9 * * *", message="Other")
        await ok(door, "cron", action="remove", name="report")
    async with Executor([molt], provide=[schedules], mode="full") as door:
        (job,) = (await ok(door, "cron", action="list"))["jobs"]
        assert job["name"] == "other"
        await ok(door, "cron", action="remove", id=job["id"])
    assert await schedules.list() == []


# -- the service ------------------------------------------------------------------------------


@owes("K-63")
async def test_heartbeats_come_and_go_with_the_settings(store: Store, clock: HandClock) -> None:
    beat = Heartbeat(session="main", text="Look around.")

    def with_beats(*beats: Heartbeat) -> StoredSchedules:
        return over(store, clock, heartbeats=beats)

    assert Heartbeat(session="main").every_s == 1800
    await with_beats().set_heartbeats()
    assert await with_beats().list() == []
    for _ in range(2):
        await with_beats(beat).set_heartbeats()
    (job,) = await with_beats().list()
    await Scheduler(Jobs(store)).tick(NOW + 1800)
    (message,) = await Inbox(store).waiting("main")
    assert (message.content, message.wake, message.by) == ("Look around.", True, "schedule")

    await with_beats(replace(beat, every_s=60)).set_heartbeats()
    (faster,) = await with_beats().list()
    assert (faster.id, faster.next_at) == (job.id, NOW + 60)
    with pytest.raises(Exception, match="is a heartbeat"):
        await with_beats().update(job.id, {"enabled": False})
    await with_beats().set_heartbeats()
    assert await with_beats().list() == []


async def test_jobs_of_other_workspaces_are_listed_apart(
    store: Store, clock: HandClock, tmp_path: Path
) -> None:
    await over(store, clock, tmp_path / "a").add(JobRequest(message="a", schedule="20m"))
    other = over(store, clock, tmp_path / "b")

    assert await other.list() == []
    assert [j.message for j in await other.list(everywhere=True)] == ["a"]


async def test_a_principal_of_the_gateway_has_the_jobs_of_its_own_sessions_only(
    store: Store, schedules: StoredSchedules
) -> None:
    async with AsyncExitStack() as stack:

        async def caller(session: str) -> Executor:
            made = Executor(builtin("cron"), provide=[schedules], mode="full", session=session)
            return await stack.enter_async_context(made)

        owner, ann, bob = [await caller(s) for s in ("main", "gateway:ann:s", "gateway:bob:s")]
        await Children(store).add(Child(id="c1", session="sub:c1", parent="gateway:ann:s"))
        helper = await caller("sub:c1")
        secret = (await ok(owner, "cron", action="add", message="pay", schedule="1h", name="pay"))["job"]
        own = (await ok(ann, "cron", action="add", message="x", schedule="2h", session="isolated"))["job"]
        await ok(owner, "cron", action="run", job_id="pay")
        lists = [(await ok(c, "cron", action="list"))["jobs"] for c in (owner, ann, helper, bob)]
        logs = [(await ok(c, "cron", action="runs"))["runs"] for c in (owner, ann)]
        refused = [
            await bob.call("cron", {"action": action, "job_id": job})
            for action in ("remove", "disable", "run", "runs", "enable")
            for job in (secret["id"], "pay", own["id"])
        ]
        within = await caller(own["session"])
        nested = await within.call("cron", {"action": "add", "message": "x", "schedule": "1h"})
        kept = await schedules.list()

    assert [[j["id"] for j in jobs] for jobs in lists] == [
        [secret["id"], own["id"]], [own["id"]], [own["id"]], []
    ]  # fmt: skip
    assert [len(rows) for rows in logs] == [1, 0]
    assert {str(r.error.code) for r in refused if r.error} == {"not_found"} and len(refused) == 15
    assert not any("pay" in str(r.error.hint) for r in refused if r.error)
    assert [(j.id, j.enabled) for j in kept] == [(secret["id"], True), (own["id"], True)]
    assert own["session"] == f"gateway:ann:schedule:{own['id']}" and not nested.ok


async def test_a_job_that_no_session_could_run_is_refused_and_a_name_is_one_line(
    schedules: StoredSchedules,
) -> None:
    request = JobRequest(message="x", schedule="1h", name="a\n b ")
    for key in ("a\x07b", " ", "s" * 300):
        with pytest.raises(InvalidArguments):
            await schedules.add(request, session=key)
    job = await schedules.add(request, session="s")
    with pytest.raises(InvalidArguments):
        await schedules.update(job.id, {"session": "a\x07b"})
    renamed = await schedules.update(job.id, {"name": "c\nd"})

    assert (job.name, renamed.name, renamed.session) == ("a b", "c d", "s")


async def test_a_job_for_one_time_that_was_run_by_hand_has_a_history(schedules: StoredSchedules) -> None:
    job = await schedules.add(JobRequest(message="x", schedule="1h"))
    other = await schedules.add(JobRequest(message="y", schedule="2h"))
    await schedules.run(job.id)

    assert [row.job for row in await schedules.runs(job.id)] == [job.id]
    assert await schedules.runs(other.id) == []
