"""ask_user: a question to the person at the other end."""

from __future__ import annotations

from collections.abc import Sequence

from pegboard import Executor, builtin
from pegboard.core.policy.approval import Waiting
from pegboard.ports.people import Question
from tests.ledger import owes


class Ann:
    """Answers every question with its first option, or with yes."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    async def ask(self, questions: Sequence[Question]) -> Sequence[str] | Waiting:
        self.asked.extend(questions)
        return [q.options[0] if q.options else "yes" for q in questions]


@owes("D-31", "K-86")
async def test_the_answer_comes_back_as_text_and_data() -> None:
    ann = Ann()
    door = Executor(builtin("ask_user"), provide=[ann])

    result = await door.call("ask_user", {"prompt": "Which colour?", "options": ["red", "blue"]})

    assert str(result) == "red"
    assert result.data == {"answer": "red", "question": "Which colour?"}
    assert ann.asked == [
        Question(text="Which colour?", options=("red", "blue"), multi_select=False, timeout_s=900)
    ]


@owes("D-31")
async def test_where_nobody_can_answer_the_question_waits(tmp_path: object) -> None:
    result = await Executor(builtin("ask_user"), workspace=str(tmp_path)).call(
        "ask_user", {"question": "Go on?"}
    )

    assert result.error is not None
    assert result.error.code == "suspended"
    assert result.data["pending"]
    assert result.error.details["question"] == "Go on?"


async def test_an_empty_question_and_a_wrong_timeout_are_refused() -> None:
    door = Executor(builtin("ask_user"), provide=[Ann()])

    for arguments in (
        {},
        {"question": ""},
        {"question": "x", "timeout": 1},
        {"question": "x", "options": list("abcde")},
    ):
        result = await door.call("ask_user", arguments)
        assert result.error is not None
        assert result.error.code == "invalid_arguments"


@owes("D-31", "K-86")
async def test_several_questions_are_asked_together() -> None:
    ann = Ann()
    door = Executor(builtin("ask_user"), provide=[ann])
    questions = [
        {
            "question": "Which colour?",
            "options": [{"label": "red", "description": "warm"}, {"label": "blue"}],
        },
        {"question": "Go on?", "multi_select": True},
    ]

    result = await door.call("ask_user", {"questions": questions, "timeout": 60})

    assert result.data == {
        "answers": [
            {"question": "Which colour?", "answer": "red"},
            {"question": "Go on?", "answer": "yes"},
        ]
    }
    assert str(result) == "Which colour?\nred\nGo on?\nyes"
    assert [(q.text, q.options, q.multi_select, q.timeout_s) for q in ann.asked] == [
        ("Which colour?", ("red", "blue"), False, 60),
        ("Go on?", (), True, 60),
    ]


@owes("K-86")
async def test_several_questions_that_nobody_answers_wait_as_one(tmp_path: object) -> None:
    result = await Executor(builtin("ask_user"), workspace=str(tmp_path)).call(
        "ask_user", {"questions": [{"question": "Which?", "options": ["a", "b"]}, {"question": "Why?"}]}
    )

    assert result.error is not None
    assert result.error.details["question"] == "1. Which? (a / b)\n2. Why?"


async def test_claude_codes_questions_are_all_asked() -> None:
    ann = Ann()
    door = Executor(builtin("ask_user").profile("claude-code"), provide=[ann])

    result = await door.call(
        "AskUserQuestion",
        {
            "questions": [
                {"question": "A?", "header": "a", "options": [{"label": "1"}], "multiSelect": True},
                {"question": "B?"},
            ]
        },
    )

    assert result.ok, result.text
    assert [(q.text, q.options, q.multi_select) for q in ann.asked] == [
        ("A?", ("1",), True),
        ("B?", (), False),
    ]
