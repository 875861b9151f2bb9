-- Every statement that the SQLite store runs on its rows, by name. No rule about calls is in here.

-- name: load
SELECT s.version, e.kind, e.key, e.body, e.due_us, e.owner, e.ticket, e.request_id
FROM scope AS s LEFT JOIN entity AS e ON e.scope = s.id AND e.live = 1
WHERE s.name = ?
ORDER BY e.id;

-- name: fetch
SELECT s.name, e.kind, e.key, e.body, e.due_us, e.owner, e.ticket, e.request_id, e.live
FROM entity AS e JOIN scope AS s ON s.id = e.scope
WHERE s.name = ? AND e.kind = ? AND e.key = ?;

-- name: due
SELECT s.name, e.kind, e.key, e.body, e.due_us, e.owner, e.ticket, e.request_id, e.live
FROM entity AS e JOIN scope AS s ON s.id = e.scope
WHERE e.due_us <= ?
ORDER BY e.due_us, e.id
LIMIT ?;

-- name: next_due
SELECT min(due_us) FROM entity WHERE due_us IS NOT NULL;

-- name: by_ticket
SELECT s.name, e.kind, e.key, e.body, e.due_us, e.owner, e.ticket, e.request_id, e.live
FROM entity AS e JOIN scope AS s ON s.id = e.scope
WHERE e.ticket = ? AND e.live = 1
ORDER BY e.ticket_no, e.id
LIMIT 1;

-- name: tickets
SELECT s.name, e.kind, e.key, e.body, e.due_us, e.owner, e.ticket, e.request_id, e.live
FROM entity AS e INDEXED BY entity_asked JOIN scope AS s ON s.id = e.scope
WHERE e.ticket_no >= 0 AND e.ticket IS NOT NULL AND e.live = 1 AND (?1 IS NULL OR e.kind = ?1)
ORDER BY e.ticket_no, e.id
LIMIT ?2;

-- name: tickets_of_scope
SELECT s.name, e.kind, e.key, e.body, e.due_us, e.owner, e.ticket, e.request_id, e.live
FROM scope AS s JOIN entity AS e INDEXED BY entity_live ON s.id = e.scope
WHERE s.name = ?2 AND e.ticket IS NOT NULL AND e.live = 1 AND (?1 IS NULL OR e.kind = ?1)
ORDER BY e.ticket_no, e.id
LIMIT ?3;

-- name: tickets_beginning
SELECT s.name, e.kind, e.key, e.body, e.due_us, e.owner, e.ticket, e.request_id, e.live
FROM entity AS e INDEXED BY entity_ticket JOIN scope AS s ON s.id = e.scope
WHERE e.ticket >= ?4 AND e.ticket < ?5 AND e.live = 1 AND (?1 IS NULL OR e.kind = ?1) AND (?2 IS NULL OR s.name = ?2)
ORDER BY e.ticket_no, e.id
LIMIT ?3;

-- name: owned
SELECT s.name, e.kind, e.key, e.body, e.due_us, e.owner, e.ticket, e.request_id, e.live
FROM entity AS e INDEXED BY entity_owner JOIN scope AS s ON s.id = e.scope
WHERE e.owner IS NOT NULL AND e.live = 1
ORDER BY e.id;

-- name: version
SELECT id, version FROM scope WHERE name = ?;

-- name: add_scope
INSERT INTO scope (name, version) VALUES (?, 1);

-- name: bump_scope
UPDATE scope SET version = version + 1 WHERE id = ?;

-- name: put
INSERT INTO entity (scope, kind, key, live, due_us, owner, ticket, ticket_no, request_id, written_us, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,
        CASE WHEN ?7 IS NOT NULL THEN (SELECT coalesce(max(seq), 0) FROM journal) END,
        ?8, ?9, ?10)
ON CONFLICT (scope, kind, key) DO UPDATE SET
    live = excluded.live, due_us = excluded.due_us, owner = excluded.owner, ticket = excluded.ticket,
    ticket_no = CASE WHEN excluded.ticket IS entity.ticket THEN entity.ticket_no ELSE excluded.ticket_no END,
    request_id = excluded.request_id, written_us = excluded.written_us, body = excluded.body;

-- name: drop
DELETE FROM entity WHERE scope = ? AND kind = ? AND key = ?;

-- name: journal_add
INSERT INTO journal (at_us, scope, run, rule, tool, action, request_id, body, epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: journal_seal_add
INSERT INTO journal (at_us, scope, run, rule, tool, action, request_id, body, epoch, chain, prev_hash, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: journal_tail
SELECT seq, epoch, hash FROM journal WHERE seq = (SELECT max(seq) FROM journal);

-- name: journal_seal
SELECT epoch, hash FROM journal WHERE seq = ?;

-- name: journal_until
SELECT seq, at_us, scope, run, rule, tool, action, request_id, body FROM journal WHERE seq <= ? ORDER BY seq;

-- name: identity
SELECT name FROM identity WHERE id = 1;

-- name: journal_all
SELECT seq, at_us, scope, run, rule, tool, action, request_id, body FROM journal
WHERE seq > ?1 AND (?2 IS NULL OR action = ?2)
ORDER BY seq
LIMIT ?3;

-- name: journal_of_request
SELECT seq, at_us, scope, run, rule, tool, action, request_id, body FROM journal
WHERE seq > ?1 AND request_id = ?2 AND request_id <> '' AND (?3 IS NULL OR action = ?3)
ORDER BY seq
LIMIT ?4;

-- name: prune
DELETE FROM entity WHERE id IN (
    SELECT id FROM entity WHERE live = 0 AND written_us < ? AND due_us IS NULL ORDER BY written_us LIMIT ?
);
