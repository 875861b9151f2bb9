-- The journal is chained (forbear.store.chain): one chain a writer, its lines sealed commit by commit.

-- Number of the first line that this writer wrote: the name of its epoch.
ALTER TABLE journal ADD COLUMN epoch INTEGER;
-- On the last line of a commit: what the seal says beside the lines (JSON), or NULL.
ALTER TABLE journal ADD COLUMN chain TEXT;
-- On the last line of a commit: the writer's seal before this one, and this one. 32 bytes each.
ALTER TABLE journal ADD COLUMN prev_hash BLOB;
ALTER TABLE journal ADD COLUMN hash BLOB;

-- Which store this is: the first line of every epoch names it, so that lines of another store are noticed.
CREATE TABLE identity (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    name TEXT    NOT NULL
);
INSERT INTO identity VALUES (1, lower(hex(randomblob(16))));
