-- The version of these tables, and the oldest release's that can use them.
CREATE TABLE `Shop1_schema_version` (
  `only_row`       TINYINT     NOT NULL DEFAULT 1 PRIMARY KEY CHECK (`only_row` = 1),
  `version`        INT         NOT NULL,
  `min_compatible` INT         NOT NULL,
  `migrated_at`    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row a message and consumer: the claim. VARBINARY compares byte for byte;
-- a secondary unique key would block neighbours, hence the primary key. It has
-- no other key, which each claim would have to write: who prunes walks the
-- primary key.
CREATE TABLE `Shop1_processed_messages` (
  `consumer_name` VARBINARY(255) NOT NULL,
  `message_id`    VARBINARY(512) NOT NULL,
  `state`         VARCHAR(16)    NOT NULL CHECK (`state` IN ('applied', 'parked', 'dead')),
  `fingerprint`   VARBINARY(255),
  `processed_at`  DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (`consumer_name`, `message_id`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What handlers returned, for repeats.
CREATE TABLE `Shop1_results` (
  `consumer_name` VARBINARY(255) NOT NULL,
  `message_id`    VARBINARY(512) NOT NULL,
  `result`        LONGBLOB       NOT NULL,
  PRIMARY KEY (`consumer_name`, `message_id`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Messages taken over from the broker, whole. Text that no text column can
-- hold stands as base64:…; headers are a JSON array of [name, value], errors
-- one of strings, newest last. event_time is the producer's, as RFC 3339.
-- position is the order of taking over. owner is a token of who last leased a
-- parked message until due_at. key_hash stands for the ordering key, of any
-- length, in the index: the first 16 bytes of its SHA-256.
CREATE TABLE `Shop1_held_messages` (
  `position`      BIGINT         NOT NULL AUTO_INCREMENT,
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
  `ordered`       TINYINT        NOT NULL DEFAULT 0 CHECK (`ordered` IN (0, 1)),
  `key_hash`      VARBINARY(16),
  `event_id`      LONGTEXT       NOT NULL,
  `event_source`  LONGTEXT       NOT NULL,
  `event_type`    LONGTEXT       NOT NULL,
  `event_subject` LONGTEXT       NOT NULL,
  `event_time`    VARCHAR(64),
  `headers`       LONGTEXT       NOT NULL,
  `payload`       LONGBLOB,
  `raw`           LONGBLOB,
  `fingerprint`   VARBINARY(255),
  PRIMARY KEY (`consumer_name`, `message_id`),
  UNIQUE KEY `position` (`position`),
  KEY `due` (`consumer_name`, `state`, `due_at`),
  KEY `order` (`consumer_name`, `ordered`, `key_hash`, `position`),
  CHECK (`state` <> 'parked' OR `due_at` IS NOT NULL),
  CHECK (`ordered` = 0 OR `key_hash` IS NOT NULL)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Messages that failed, or whose handling began and had no end; start_until is
-- up to when a start may still end. errors is as in held_messages.
CREATE TABLE `Shop1_attempts` (
  `consumer_name` VARBINARY(255) NOT NULL,
  `message_id`    VARBINARY(512) NOT NULL,
  `failed`        INT            NOT NULL DEFAULT 0,
  `crashed`       INT            NOT NULL DEFAULT 0,
  `errors`        LONGTEXT       NOT NULL DEFAULT ('[]'),
  `started_at`    DATETIME(6),
  `start_until`   DATETIME(6),
  `changed_at`    DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (`consumer_name`, `message_id`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The consumers, and the names they had (renamed_to). watermark is up to when
-- claims may be gone; published_watermark comes of age a minute after
-- published_at, then it is prunable_watermark: claims before that are deleted.
-- prune_after is the message_id up to which the walk through the claims has come.
CREATE TABLE `Shop1_consumers` (
  `consumer_name`       VARBINARY(255) NOT NULL PRIMARY KEY,
  `subscription`        LONGTEXT,
  `first_seen`          DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  `renamed_to`          VARBINARY(255),
  `watermark`           DATETIME(6),
  `watermark_called_at` DATETIME(6),
  `published_watermark` DATETIME(6),
  `published_at`        DATETIME(6),
  `prunable_watermark`  DATETIME(6),
  `prune_after`         VARBINARY(512),
  `paused`              TINYINT        NOT NULL DEFAULT 0 CHECK (`paused` IN (0, 1)),
  `paused_by`           LONGTEXT,
  `paused_reason`       LONGTEXT,
  `paused_at`           DATETIME(6)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- How far each consumer has acknowledged, by the broker's partitions.
CREATE TABLE `Shop1_positions` (
  `consumer_name`  VARBINARY(255) NOT NULL,
  `partition_name` VARBINARY(512) NOT NULL,
  `position`       LONGTEXT       NOT NULL,
  `saved_at`       DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (`consumer_name`, `partition_name`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What people did. Text is as in held_messages.
CREATE TABLE `Shop1_audit_log` (
  `id`            BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
  `acted_at`      DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  `actor`         LONGTEXT       NOT NULL,
  `reason`        LONGTEXT       NOT NULL,
  `action`        VARCHAR(64)    NOT NULL,
  `consumer_name` VARBINARY(255) NOT NULL,
  `message_id`    VARBINARY(512) NOT NULL,
  `detail`        LONGBLOB,
  KEY `consumer` (`consumer_name`, `id`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `Shop1_schema_version` (`version`, `min_compatible`) VALUES (1, 1);
