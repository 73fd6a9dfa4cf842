"""Schemas that Gemini's subset cannot say at all: the tool goes with free arguments, the others as they are."""

from __future__ import annotations

from pegboard.dialects.gemini_schema import gemini_schema


def test_a_schema_that_cannot_be_written_out_is_sent_as_free_arguments_and_said() -> None:
    broken = {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}

    sent, notes = gemini_schema(broken, "lookup")

    assert sent["type"].lower() == "object"
    assert sent["properties"] == {}
    assert len(notes) == 1
    assert notes[0].startswith("gemini: tool 'lookup' is sent with free arguments: ")
    assert "nowhere" in notes[0]
