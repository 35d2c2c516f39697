"""Commands for operators: worker, database, deployment, doctor, frames, messages and console."""
