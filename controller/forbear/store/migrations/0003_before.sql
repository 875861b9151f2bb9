-- What waits is listed in the order in which it began to wait, and only as far as somebody looks.

CREATE INDEX entity_asked ON entity (ticket_no) WHERE ticket IS NOT NULL AND live = 1;
