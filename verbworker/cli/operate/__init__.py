"""Commands for operators: worker, database, deployment, doctor, frames, messages, console and the HTTP API."""
