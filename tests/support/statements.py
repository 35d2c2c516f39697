"""Statements for the guard of transactional verbs: those that control a transaction, and those that only look so."""

CONTROL = {
    "BEGIN": "BEGIN",
    "START": "START TRANSACTION",
    "COMMIT": "COMMIT",
    "END": "END",
    "ROLLBACK": "ROLLBACK",
    "ABORT": "ABORT",
    "PREPARE TRANSACTION": "PREPARE TRANSACTION 'x'",
    "SET": "SET synchronous_commit = off",
    "RESET": "RESET ALL",
    "DISCARD": "DISCARD ALL",
    "DEALLOCATE": "DEALLOCATE ALL",
    "LISTEN": "LISTEN x",
    "UNLISTEN": "UNLISTEN *",
}
"""What the guard calls a statement, and the statement."""

DISGUISES = [
    "{}",
    "  \n\t{}",
    "\f\v{}",
    ";{}",
    ";; ; {}",
    "SELECT 1; {}",
    "SELECT 1;{};SELECT 2",
    "-- a comment\n{}",
    "-- a comment; with a semicolon\n{}",
    "-- ended by a carriage return\r{}",
    "-- one\n-- two\n{}",
    "/* a comment */{}",
    "/* a comment; with a semicolon */ {}",
    "/* one /* inside; another */ still a comment */ {}",
    "/**/{}",
    "/* -- */ {}",
    "/* ' */ {} /* ' */",
    "-- '\n{} -- '",
    "SELECT 'it''s;'; {}",
    "SELECT E'it\\'s;'; {}",
    "SELECT '\\'; {}",
    'SELECT 1 AS "a;b"; {}',
    'SELECT 1 AS "a"";b"; {}',
    "SELECT $$;$$; {}",
    "SELECT $tag$ $$ ; $other$ $tag$; {}",
    "SELECT 1 AS a$$; {}; SELECT 2 AS b$$",
    "SELECT 'unended-looking --'; {}",
    "SELECT 1 /* ; */; {}",
]
"""Places where such a statement may hide."""

HARMLESS = [
    "SELECT 1",
    "SELECT 'a; COMMIT'",
    "SELECT 'it''s; COMMIT'",
    "SELECT E'it\\'s; COMMIT'",
    "SELECT $$; COMMIT; $$",
    "SELECT $a$; ROLLBACK; $b$; END; $a$",
    'SELECT 1 AS "x; COMMIT"',
    "SELECT 1 -- ; COMMIT",
    "SELECT 1 /* ; COMMIT */",
    "/* COMMIT */ SELECT 1",
    "-- COMMIT\nSELECT 1",
    "SELECT CASE WHEN true THEN 1 END",
    "SELECT 1 AS begin_at, 2 AS commit$",
    "DO $$ BEGIN PERFORM 1; END $$",
    "PREPARE named AS SELECT 1",
    "SAVEPOINT here",
    "VALUES (1); SELECT 2;",
]
"""What must pass although it may look like one."""

NOTHING = ["", " ; ", "-- COMMIT", "/* never ended; COMMIT", "/* COMMIT /* COMMIT */"]
"""What says nothing at all."""
