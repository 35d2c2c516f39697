"""Hello world as a plain job: the whole application."""

from verbworker import Registry, TaskCall

registry = Registry()


@registry.task("hello.greet")
async def greet(name: str, call: TaskCall) -> dict[str, str]:
    """Greet somebody; the key is the same if a crash makes it run again."""
    return {"greeting": f"Hello, {name}!", "letter": call.idempotency_key}
