DROP TABLE "main"."Shop1_held_messages";

DROP TABLE "main"."Shop1_results";

DROP TABLE "main"."Shop1_processed_messages";

DROP TABLE "main"."Shop1_schema_version";
