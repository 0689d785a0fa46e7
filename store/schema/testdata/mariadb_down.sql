DROP TABLE `Shop1_held_messages`;

DROP TABLE `Shop1_results`;

DROP TABLE `Shop1_processed_messages`;

DROP TABLE `Shop1_schema_version`;
