-- The schema as it is after all migrations, for reading. It is never run: a test holds it equal to their sum.

-- Which migrations were applied (forbear.store.schema).
CREATE TABLE schema_version (
    version    INTEGER NOT NULL,
    stage      TEXT    NOT NULL CHECK (stage IN ('before', 'after')),
    PRIMARY KEY (version, stage)
);

-- One row a scope that was ever written. Rows are never deleted: a version that started again at 0 could be mistaken
-- for one that was read before.
CREATE TABLE scope (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL UNIQUE,
    version INTEGER NOT NULL
);

-- Encoded rows (forbear.ports.Row). `body` is opaque here; the other columns exist to find rows.
CREATE TABLE entity (
    id         INTEGER PRIMARY KEY,
    scope      INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    live       INTEGER NOT NULL CHECK (live IN (0, 1)),
    due_us     INTEGER,
    owner      TEXT,
    ticket     TEXT,
    -- Journal sequence number when the row got its ticket: the order of tickets.
    ticket_no  INTEGER,
    request_id TEXT,
    written_us INTEGER NOT NULL,
    body       BLOB    NOT NULL CHECK (typeof(body) = 'blob'),
    UNIQUE (scope, kind, key)
);

CREATE INDEX entity_live   ON entity (scope)  WHERE live = 1;
CREATE INDEX entity_due    ON entity (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX entity_owner  ON entity (owner)  WHERE owner IS NOT NULL;
CREATE INDEX entity_ticket ON entity (ticket) WHERE ticket IS NOT NULL;
-- What waits, in the order in which it began to wait.
CREATE INDEX entity_asked ON entity (ticket_no) WHERE ticket IS NOT NULL AND live = 1;
-- Retention looks only at these.
CREATE INDEX entity_past   ON entity (written_us) WHERE live = 0;

-- Decisions, append-only (forbear.ports.JournalLine).
CREATE TABLE journal (
    seq        INTEGER PRIMARY KEY CHECK (seq > 0),
    at_us      INTEGER NOT NULL,
    scope      TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    rule       TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    body       BLOB    NOT NULL CHECK (typeof(body) = 'blob')
-- epoch: number of the first line that this writer wrote (forbear.store.chain). On the last line of a commit: what the
-- seal says beside the lines (JSON, or NULL), the writer's seal before this one, and this one (32 bytes each).
, epoch INTEGER, chain TEXT, prev_hash BLOB, hash BLOB);

CREATE INDEX journal_request ON journal (request_id) WHERE request_id <> '';

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;

CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;

-- INSERT OR REPLACE deletes without firing the trigger above. NEW.seq is -1 where SQLite chooses the number.
CREATE TRIGGER journal_no_replace BEFORE INSERT ON journal
WHEN NEW.seq <> -1 AND NEW.seq <= (SELECT max(seq) FROM journal)
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;

-- Which store this is: the first line of every epoch names it, so that lines of another store are noticed.
CREATE TABLE identity (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    name TEXT    NOT NULL
);
