-- The version of these tables, and the oldest release's that can use them.
CREATE TABLE {{table "schema_version"}} (
  only_row       INTEGER NOT NULL DEFAULT 1 PRIMARY KEY CHECK (only_row = 1),
  version        INTEGER NOT NULL,
  min_compatible INTEGER NOT NULL,
  migrated_at    TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

-- One row a message and consumer: the claim. STRICT keeps one ID from standing
-- as text and as bytes; without a rowid the primary key is the table, and NULL
-- is refused. It has no other index, which each claim would have to write: who
-- prunes walks the primary key.
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
-- other times are UTC in the same form as the defaults here. position is the
-- order of taking over. owner is a token of who last leased a parked message
-- until due_at. key_hash stands for the ordering key, of any length, in the
-- index: the first 16 bytes of its SHA-256.
CREATE TABLE {{table "held_messages"}} (
  position      INTEGER PRIMARY KEY,
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
  ordered       INTEGER NOT NULL DEFAULT 0 CHECK (ordered IN (0, 1)),
  key_hash      BLOB,
  event_id      TEXT NOT NULL,
  event_source  TEXT NOT NULL,
  event_type    TEXT NOT NULL,
  event_subject TEXT NOT NULL,
  event_time    TEXT,
  headers       TEXT NOT NULL,
  payload       BLOB,
  raw           BLOB,
  fingerprint   BLOB,
  UNIQUE (consumer_name, message_id),
  CHECK (state <> 'parked' OR due_at IS NOT NULL),
  CHECK (NOT ordered OR key_hash IS NOT NULL)
) STRICT;

-- Parked messages by when they are due.
CREATE INDEX {{table "held_messages_due"}} ON {{bare "held_messages"}} (consumer_name, due_at) WHERE state = 'parked';

-- The order of each key.
CREATE INDEX {{table "held_messages_order"}} ON {{bare "held_messages"}} (consumer_name, key_hash, position) WHERE ordered;

-- Messages that failed, or whose handling began and had no end; start_until is
-- up to when a start may still end. errors is as in held_messages.
CREATE TABLE {{table "attempts"}} (
  consumer_name TEXT NOT NULL COLLATE BINARY,
  message_id    TEXT NOT NULL COLLATE BINARY,
  failed        INTEGER NOT NULL DEFAULT 0,
  crashed       INTEGER NOT NULL DEFAULT 0,
  errors        TEXT NOT NULL DEFAULT '[]',
  started_at    TEXT,
  start_until   TEXT,
  changed_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (consumer_name, message_id)
) STRICT;

-- The consumers, and the names they had (renamed_to). watermark is up to when
-- claims may be gone; published_watermark comes of age a minute after
-- published_at, then it is prunable_watermark: claims before that are deleted.
-- prune_after is the message_id up to which the walk through the claims has come.
CREATE TABLE {{table "consumers"}} (
  consumer_name       TEXT NOT NULL COLLATE BINARY PRIMARY KEY,
  subscription        TEXT,
  first_seen          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  renamed_to          TEXT,
  watermark           TEXT,
  watermark_called_at TEXT,
  published_watermark TEXT,
  published_at        TEXT,
  prunable_watermark  TEXT,
  prune_after         TEXT,
  paused              INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  paused_by           TEXT,
  paused_reason       TEXT,
  paused_at           TEXT
) STRICT;

-- How far each consumer has acknowledged, by the broker's partitions.
CREATE TABLE {{table "positions"}} (
  consumer_name  TEXT NOT NULL COLLATE BINARY,
  partition_name TEXT NOT NULL COLLATE BINARY,
  position       TEXT NOT NULL,
  saved_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (consumer_name, partition_name)
) STRICT;

-- What people did. Text is as in held_messages.
CREATE TABLE {{table "audit_log"}} (
  id            INTEGER PRIMARY KEY,
  acted_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  actor         TEXT NOT NULL,
  reason        TEXT NOT NULL,
  action        TEXT NOT NULL,
  consumer_name TEXT NOT NULL COLLATE BINARY,
  message_id    TEXT NOT NULL COLLATE BINARY,
  detail        BLOB
) STRICT;

CREATE INDEX {{table "audit_log_consumer"}} ON {{bare "audit_log"}} (consumer_name, id);

INSERT INTO {{table "schema_version"}} (version, min_compatible) VALUES (1, 1);
