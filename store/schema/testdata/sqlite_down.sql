DROP TABLE "main"."Shop1_audit_log";

DROP TABLE "main"."Shop1_positions";

DROP TABLE "main"."Shop1_consumers";

DROP TABLE "main"."Shop1_attempts";

DROP TABLE "main"."Shop1_held_messages";

DROP TABLE "main"."Shop1_results";

DROP TABLE "main"."Shop1_processed_messages";

DROP TABLE "main"."Shop1_schema_version";
