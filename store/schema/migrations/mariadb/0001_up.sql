-- The version of these tables, and the oldest release's that can use them.
CREATE TABLE {{table "schema_version"}} (
  `only_row`       TINYINT     NOT NULL DEFAULT 1 PRIMARY KEY CHECK (`only_row` = 1),
  `version`        INT         NOT NULL,
  `min_compatible` INT         NOT NULL,
  `migrated_at`    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row a message and consumer: the claim. VARBINARY compares byte for byte;
-- a secondary unique key would block neighbours, hence the primary key.
CREATE TABLE {{table "processed_messages"}} (
  `consumer_name` VARBINARY(255) NOT NULL,
  `message_id`    VARBINARY(512) NOT NULL,
  `state`         VARCHAR(16)    NOT NULL CHECK (`state` IN ('applied', 'parked', 'dead')),
  `fingerprint`   VARBINARY(255),
  `processed_at`  DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (`consumer_name`, `message_id`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What handlers returned, for repeats.
CREATE TABLE {{table "results"}} (
  `consumer_name` VARBINARY(255) NOT NULL,
  `message_id`    VARBINARY(512) NOT NULL,
  `result`        LONGBLOB       NOT NULL,
  PRIMARY KEY (`consumer_name`, `message_id`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Messages taken over from the broker, whole. Text that no text column can
-- hold stands as base64:…; headers are a JSON array of [name, value], errors
-- one of strings, newest last. event_time is the producer's, as RFC 3339.
CREATE TABLE {{table "held_messages"}} (
  `consumer_name` VARBINARY(255) NOT NULL,
  `message_id`    VARBINARY(512) NOT NULL,
  `state`         VARCHAR(16)    NOT NULL CHECK (`state` IN ('parked', 'dead')),
  `reason`        VARCHAR(64)    NOT NULL,
  `attempts`      INT            NOT NULL,
  `errors`        LONGTEXT       NOT NULL,
  `due_at`        DATETIME(6),
  `held_at`       DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  `owner`         VARCHAR(255),
  `topic`         LONGTEXT       NOT NULL,
  `ordering_key`  LONGTEXT       NOT NULL,
  `event_id`      LONGTEXT       NOT NULL,
  `event_source`  LONGTEXT       NOT NULL,
  `event_type`    LONGTEXT       NOT NULL,
  `event_subject` LONGTEXT       NOT NULL,
  `event_time`    VARCHAR(64),
  `headers`       LONGTEXT       NOT NULL,
  `payload`       LONGBLOB,
  `raw`           LONGBLOB,
  `fingerprint`   VARBINARY(255),
  PRIMARY KEY (`consumer_name`, `message_id`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO {{table "schema_version"}} (`version`, `min_compatible`) VALUES (1, 1);
