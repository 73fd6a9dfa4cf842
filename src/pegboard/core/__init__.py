"""core: values and pure logic; imports nothing else of Pegboard."""
