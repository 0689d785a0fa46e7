DROP TABLE `Shop1_audit_log`;

DROP TABLE `Shop1_positions`;

DROP TABLE `Shop1_consumers`;

DROP TABLE `Shop1_attempts`;

DROP TABLE `Shop1_held_messages`;

DROP TABLE `Shop1_results`;

DROP TABLE `Shop1_processed_messages`;

DROP TABLE `Shop1_schema_version`;
