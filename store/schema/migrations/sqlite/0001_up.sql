-- The version of these tables, and the oldest release's that can use them.
CREATE TABLE {{table "schema_version"}} (
  only_row       INTEGER NOT NULL DEFAULT 1 PRIMARY KEY CHECK (only_row = 1),
  version        INTEGER NOT NULL,
  min_compatible INTEGER NOT NULL,
  migrated_at    TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

-- One row a message and consumer: the claim. STRICT keeps one ID from standing
-- as text and as bytes; without a rowid the primary key is the table, and NULL
-- is refused.
CREATE TABLE {{table "processed_messages"}} (
  consumer_name TEXT NOT NULL COLLATE BINARY,
  message_id    TEXT NOT NULL COLLATE BINARY,
  state         TEXT NOT NULL COLLATE BINARY CHECK (state IN ('applied', 'parked', 'dead')),
  fingerprint   BLOB,
  processed_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (consumer_name, message_id)
) STRICT, WITHOUT ROWID;

-- What handlers returned, for repeats.
CREATE TABLE {{table "results"}} (
  consumer_name TEXT NOT NULL COLLATE BINARY,
  message_id    TEXT NOT NULL COLLATE BINARY,
  result        BLOB NOT NULL,
  PRIMARY KEY (consumer_name, message_id)
) STRICT;

-- Messages taken over from the broker, whole. Text that no text column can
-- hold stands as base64:…; headers are a JSON array of [name, value], errors
-- one of strings, newest last. event_time is the producer's, as RFC 3339;
-- other times are UTC in the same form as the defaults here.
CREATE TABLE {{table "held_messages"}} (
  consumer_name TEXT NOT NULL COLLATE BINARY,
  message_id    TEXT NOT NULL COLLATE BINARY,
  state         TEXT NOT NULL COLLATE BINARY CHECK (state IN ('parked', 'dead')),
  reason        TEXT NOT NULL,
  attempts      INTEGER NOT NULL,
  errors        TEXT NOT NULL,
  due_at        TEXT,
  held_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  owner         TEXT,
  topic         TEXT NOT NULL,
  ordering_key  TEXT NOT NULL,
  event_id      TEXT NOT NULL,
  event_source  TEXT NOT NULL,
  event_type    TEXT NOT NULL,
  event_subject TEXT NOT NULL,
  event_time    TEXT,
  headers       TEXT NOT NULL,
  payload       BLOB,
  raw           BLOB,
  fingerprint   BLOB,
  PRIMARY KEY (consumer_name, message_id)
) STRICT;

INSERT INTO {{table "schema_version"}} (version, min_compatible) VALUES (1, 1);
