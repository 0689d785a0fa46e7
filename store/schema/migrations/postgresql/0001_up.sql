-- CREATE SCHEMA IF NOT EXISTS demands the right to create one also where it exists.
DO $yekbar$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = {{schemaLiteral}}) THEN
    CREATE SCHEMA {{schema}};
    COMMENT ON SCHEMA {{schema}} IS 'created by Yekbar';
  END IF;
END
$yekbar$;

-- The version of these tables, and the oldest release's that can use them.
CREATE TABLE {{table "schema_version"}} (
  only_row       boolean     NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
  version        integer     NOT NULL,
  min_compatible integer     NOT NULL,
  migrated_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row a message and consumer: the claim. COLLATE "C" compares byte for byte.
CREATE TABLE {{table "processed_messages"}} (
  consumer_name text COLLATE "C" NOT NULL,
  message_id    text COLLATE "C" NOT NULL,
  state         text COLLATE "C" NOT NULL CHECK (state IN ('applied', 'parked', 'dead')),
  fingerprint   bytea,
  processed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT processed_messages_pkey PRIMARY KEY (consumer_name, message_id)
);

-- What handlers returned, for repeats.
CREATE TABLE {{table "results"}} (
  consumer_name text COLLATE "C" NOT NULL,
  message_id    text COLLATE "C" NOT NULL,
  result        bytea NOT NULL,
  PRIMARY KEY (consumer_name, message_id)
);

-- Messages taken over from the broker, whole. Text that no text column can
-- hold stands as base64:…; headers are a JSON array of [name, value], errors
-- one of strings, newest last. event_time is the producer's, as RFC 3339.
CREATE TABLE {{table "held_messages"}} (
  consumer_name text COLLATE "C" NOT NULL,
  message_id    text COLLATE "C" NOT NULL,
  state         text COLLATE "C" NOT NULL CHECK (state IN ('parked', 'dead')),
  reason        text COLLATE "C" NOT NULL,
  attempts      integer NOT NULL,
  errors        text COLLATE "C" NOT NULL,
  due_at        timestamptz,
  held_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  owner         text COLLATE "C",
  topic         text COLLATE "C" NOT NULL,
  ordering_key  text COLLATE "C" NOT NULL,
  event_id      text COLLATE "C" NOT NULL,
  event_source  text COLLATE "C" NOT NULL,
  event_type    text COLLATE "C" NOT NULL,
  event_subject text COLLATE "C" NOT NULL,
  event_time    text COLLATE "C",
  headers       text COLLATE "C" NOT NULL,
  payload       bytea,
  raw           bytea,
  fingerprint   bytea,
  PRIMARY KEY (consumer_name, message_id)
);

INSERT INTO {{table "schema_version"}} (version, min_compatible) VALUES (1, 1);
