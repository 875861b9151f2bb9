-- The desk's world. Instants are ISO 8601 UTC text with whole seconds, so that they compare as text.
CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), now TEXT NOT NULL);
CREATE TABLE desk (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    frozen INTEGER NOT NULL,
    daily_limit INTEGER NOT NULL,
    orders_today INTEGER NOT NULL,      -- orders that were counted before this journey began
    reset_at TEXT NOT NULL,             -- when the daily limit starts again
    opens_at TEXT NOT NULL,             -- the market is open at and after this instant
    approval_above INTEGER NOT NULL,    -- withdrawals above this amount need a person
    cash INTEGER NOT NULL,
    fills_after INTEGER NOT NULL        -- seconds until an order is filled
);
CREATE TABLE instruments (
    symbol TEXT PRIMARY KEY, name TEXT NOT NULL, sector TEXT NOT NULL, price INTEGER NOT NULL, lot INTEGER NOT NULL,
    enabled INTEGER NOT NULL
);
CREATE TABLE faults (operation TEXT NOT NULL, kind TEXT NOT NULL, remaining INTEGER NOT NULL);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, client_reference TEXT, symbol TEXT NOT NULL, side TEXT NOT NULL, quantity INTEGER NOT NULL,
    placed_at TEXT NOT NULL, cancelled_at TEXT, note TEXT, owner TEXT NOT NULL
);
CREATE TABLE withdrawals (
    id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, destination TEXT NOT NULL, at TEXT NOT NULL
);
-- What the person was asked and said. A yes is an approval of exactly that amount and destination, spent once.
CREATE TABLE prompts (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, amount INTEGER NOT NULL, destination TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (answer IN ('yes', 'no')), spent_at TEXT,
    ledger_before INTEGER NOT NULL      -- the last execution that had happened when the person answered
);
CREATE TABLE watchlist (symbol TEXT PRIMARY KEY, added_at TEXT NOT NULL);
CREATE TABLE alerts (id INTEGER PRIMARY KEY, symbol TEXT NOT NULL, price INTEGER NOT NULL, at TEXT NOT NULL);
CREATE TABLE allocations (symbol TEXT PRIMARY KEY, percent INTEGER NOT NULL, at TEXT NOT NULL);
-- Every call that reached the server, whatever became of it. The demo's counts come from here.
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, tool TEXT NOT NULL, operation TEXT NOT NULL, arguments TEXT NOT NULL,
    outcome TEXT NOT NULL, code TEXT, reset_at TEXT, effect INTEGER NOT NULL
);
